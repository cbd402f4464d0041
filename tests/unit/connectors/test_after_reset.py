"""What each connector says about a reset: what is read again, and what a target does with it."""

from __future__ import annotations

import pytest

from penstock.connector import Batch
from penstock.connectors.cassandra import CassandraSink, CassandraSource
from penstock.connectors.console import ConsoleSink
from penstock.connectors.delta import DeltaSink, DeltaSource
from penstock.connectors.eventhubs import EventHubsSink, EventHubsSource
from penstock.connectors.files import FileSink, FileSource
from penstock.connectors.jdbc import JdbcSink, JdbcSource
from penstock.connectors.kafka import KafkaSink, KafkaSource
from penstock.connectors.kafka._transactions import TransactionSpec
from penstock.connectors.memory import MemorySink
from penstock.connectors.python import ForeachBatchSink, ForeachSink
from penstock.connectors.rate import RateSource
from penstock.connectors.socket import SocketSource

KAFKA = {"servers": "x:1", "topics": ("t",)}
HUB = {"connection": "Endpoint=sb://n.example/;SharedAccessKeyName=a;SharedAccessKey=b;EntityPath=h"}
DATABASE = {"url": "jdbc:sqlite:/x.db", "table": "t"}


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (KafkaSource(**KAFKA, start="earliest"), "is read from the first record that is still there on"),
        (KafkaSource(**KAFKA), "is read from then on: what it holds already is skipped"),
        (KafkaSource(**KAFKA, start="2024-05-01 12:00:00"), "is read from 2024-05-01 12:00:00 on"),
        (KafkaSource(**KAFKA, start={"t": {0: 5}}), "is read from the offsets of 'start'"),
        (EventHubsSource(**HUB, start="start"), "is read from the first record that is still there on"),
        (EventHubsSource(**HUB), "is read from then on: what it holds already is skipped"),
        (EventHubsSource(**HUB, start=7), "is read from event 7 of each partition on"),
        (FileSource(path="/in"), "is read whole: every file that is still there"),
        (
            FileSource(path="/in", after_read="delete"),
            "is read whole: every file that is still there; those that were deleted are not",
        ),
        (DeltaSource(path="/in"), "is read whole, then what is added to it"),
        (DeltaSource(path="/in", change_feed=True), "is read from its first version"),
        (DeltaSource(path="/in", start="latest"), "is read from then on: what it holds already is skipped"),
        (DeltaSource(path="/in", start=3), "is read from version 3 on"),
        (RateSource(), "begins again with value 0"),
        (SocketSource(port=1), "is read from then on: what was read before does not come again"),
        (JdbcSource(**DATABASE), "is a static table, and is read at the start"),
        (CassandraSource(hosts="x", table="k.t"), "is a static table, and is read at the start"),
    ],
)
def test_a_source_says_what_a_new_checkpoint_reads(source, says):
    assert source.on_reset == says


AGAIN = "gets the rows again, in addition to those that it has"
REPLACES = "replaces the rows of the same keys"


@pytest.mark.parametrize(
    ("sink", "mode", "says"),
    [
        (FileSink(path="/out"), "append", AGAIN),
        (DeltaSink(path="/out"), "append", AGAIN),
        (DeltaSink(path="/out"), "complete", "is replaced as a whole"),
        (DeltaSink(path="/out", key=("id",)), "update", REPLACES),
        (DeltaSink(path="/out", key=("id",), latest_by="at"), "append", f"{REPLACES}, unless it has later ones"),
        (JdbcSink(**DATABASE), "append", AGAIN),
        (JdbcSink(**DATABASE, key=("id",)), "update", REPLACES),
        (JdbcSink(**DATABASE), "complete", "is replaced as a whole"),
        (CassandraSink(hosts="x", table="k.t"), "append", REPLACES),
        (CassandraSink(hosts="x", table="k.t", timestamp="at"), "append", f"{REPLACES}, unless it has later ones"),
        (KafkaSink(servers="x:1", topic="t", delivery="exactly-once"), "append", AGAIN),
        (EventHubsSink(**HUB), "append", AGAIN),
        (ConsoleSink(), "append", "prints the rows again"),
        (MemorySink(), "append", "is empty at every start"),
        (
            ForeachBatchSink(python="a:b"),
            "append",
            "calls the function with the rows again, with batch numbers from 0",
        ),
        (ForeachSink(python="a:b"), "append", "processes the rows again, with batch numbers from 0"),
    ],
)
def test_a_sink_says_what_happens_to_rows_that_it_gets_again(sink, mode, says):
    assert sink.on_replay(mode) == says


def test_a_target_that_cannot_tell_its_last_batch_does_not_guess():
    writer = ConsoleSink().open(None, None, "append")

    assert writer.last_batch(Batch(3, "q", "w")) is None


def test_a_transactional_id_is_that_of_a_checkpoint_and_a_topic():
    def own_id(writer: str = "p.s.t", query: str = "q", topic: str = "t", batch: int = 0, task: int = 0) -> str:
        return TransactionSpec(topic, {}, writer, query, batch, 30.0).transactional_id(task)

    others = {own_id(), own_id(writer="p.s.u"), own_id(query="r"), own_id(topic="u"), own_id(task=1)}

    assert len(others) == 5
    assert own_id(batch=7) == own_id()


def test_the_way_on_after_an_expired_group_is_for_exactly_once():
    with pytest.raises(ValueError, match="'on_expired_group' belongs to 'delivery: exactly-once'"):
        KafkaSink(servers="x:1", topic="t", on_expired_group="send")
