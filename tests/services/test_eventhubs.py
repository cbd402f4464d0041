"""Event Hubs over their Kafka endpoint: a real broker whose user $ConnectionString has a connection string."""

from __future__ import annotations

import json
import os
from datetime import datetime, timezone

import pytest
from tests.services.command import penstock
from tests.services.fixtures import Kafka
from tests.services.secured import DEMO, SecuredBroker

from penstock.connectors.eventhubs import EventHubsSink, EventHubsSource
from penstock.connectors.kafka import create_topics
from penstock.engine.prepare import probe
from penstock.testing.connectors import SinkSuite, SourceSuite


@pytest.fixture
def kafka(secured: SecuredBroker) -> Kafka:
    """The plaintext side of the secured broker, to judge by."""
    return Kafka(secured.address)


@pytest.fixture
def namespace(secured: SecuredBroker, monkeypatch) -> dict[str, object]:
    """What reaches the namespace that the broker stands in for; the hub is still to be named."""
    monkeypatch.setenv("CONNECTION", secured.broker.secured.connection)
    return {"connection": "${env:CONNECTION}", "tls": secured.options("tls")["tls"]}


def reading(options: dict[str, object], more: str = "value: string") -> str:
    return f"""
    name: p
    sources:
      events: {{eventhubs: {json.dumps(options)}, {more}}}
    sinks: {{out: {{from: events, memory: {{}}}}}}
    """


def bodies(project, options: dict[str, object]) -> list[str]:
    project.run(reading(options))
    return [row["body"] for row in project.spark.table("out").orderBy("partition", "sequenceNumber").collect()]


def test_events_have_the_columns_that_users_of_event_hubs_know(project, kafka, namespace):
    hub = kafka.create()
    kafka.send(
        hub, "one", key="k", timestamp=1_700_000_000_123, headers=[("a", b"1"), ("a", b"2"), ("b", b"\xa1\x03amq")]
    )
    kafka.send(hub, b"\xff")

    project.run(reading({**namespace, "hub": hub, "start": "start"}, "value: bytes"))

    found = project.spark.table("out")
    assert found.dtypes == [
        ("body", "binary"),
        ("partition", "string"),
        ("offset", "string"),
        ("sequenceNumber", "bigint"),
        ("enqueuedTime", "timestamp"),
        ("publisher", "string"),
        ("partitionKey", "string"),
        ("properties", "map<string,string>"),
    ]
    first, second = (row.asDict() for row in found.orderBy("sequenceNumber").collect())
    assert first.pop("enqueuedTime").astimezone(timezone.utc) == datetime(
        2023, 11, 14, 22, 13, 20, 123_000, tzinfo=timezone.utc
    )
    assert first == {
        "body": bytearray(b"one"),
        "partition": "0",
        "offset": "0",
        "sequenceNumber": 0,
        "publisher": None,
        "partitionKey": "k",
        "properties": {"a": "2", "b": "amq"},
    }
    assert (second["body"], second["partitionKey"], second["properties"]) == (bytearray(b"\xff"), None, {})


@pytest.mark.parametrize(
    ("start", "wanted"),
    [
        ("start", ["a", "b", "c"]),
        (1, ["b", "c"]),
        ({0: 2}, ["c"]),
        ('{"offset":"-1","seqNo":-1,"enqueuedTime":null,"isInclusive":true}', ["a", "b", "c"]),
        ({"offset": None, "seqNo": 1, "isInclusive": False}, ["c"]),
        ({"offset": None, "seqNo": -1, "enqueuedTime": "2023-11-14T22:13:21.000Z", "isInclusive": True}, ["b", "c"]),
        ("2023-11-14 22:13:22", ["c"]),
        (99, []),
    ],
)
def test_a_query_begins_where_start_says(project, kafka, namespace, start, wanted):
    hub = kafka.create()
    for number, text in enumerate("abc"):
        kafka.send(hub, text, timestamp=1_700_000_000_000 + number * 1000)

    assert bodies(project, {**namespace, "hub": hub, "start": start}) == wanted


def test_the_connection_string_alone_is_enough(project, secured, kafka, monkeypatch):
    create_topics(secured.address, (DEMO,))
    kafka.send(DEMO, "hello")
    monkeypatch.setenv("CONNECTION", secured.hub)

    found = bodies(project, {"connection": "${env:CONNECTION}", "tls": secured.options("tls")["tls"], "start": "start"})

    assert found == ["hello"]


def test_namespace_hub_and_policy_open_the_hub_too(project, secured, kafka, namespace, monkeypatch):
    hub = kafka.create()
    kafka.send(hub, "hello")
    key = secured.broker.secured.connection.rpartition("SharedAccessKey=")[2]
    monkeypatch.setenv("KEY", key)
    parts = {"namespace": secured.at("sasl-plain"), "policy": "penstock", "key": "${env:KEY}", "tls": namespace["tls"]}

    assert bodies(project, {**parts, "hub": hub, "start": "start"}) == ["hello"]


def test_events_that_expired_are_named_and_left_out_only_when_told(kafka, namespace, refusal, monkeypatch):
    hub = kafka.create()
    kafka.send(hub, *(str(number) for number in range(10)))
    kafka.forget(hub, 0, before=7)
    asked = {"connection": os.environ["CONNECTION"], "tls": namespace["tls"], "hub": hub}
    positions = {hub: {"0": 4, "1": 0}}

    assert "3 records" in refusal(EventHubsSource(**asked).resume, positions, {})
    moved, (gap,) = EventHubsSource(**asked, on_data_loss="skip").resume(positions, {})

    assert moved == {hub: {"0": 7, "1": 0}}
    assert (gap.partition, gap.start, gap.end) == (0, 4, 7)
    assert EventHubsSource(**asked).reads_positions(positions)
    assert not EventHubsSource(**asked).reads_positions({"another": {"0": 4}})


def test_no_batch_has_more_events_than_it_may(project, kafka, namespace):
    hub = kafka.create()
    kafka.send(hub, "a", "b", "c")

    run = project.run(reading({**namespace, "hub": hub, "start": "start", "events_per_trigger": 2}))

    assert [batch.rows_in for batch in run.batches] == [2, 1]


def test_the_body_is_decoded_and_a_bad_one_is_named_by_its_place(project, kafka, namespace, refusal):
    hub = kafka.create()
    kafka.send(hub, '{"id": 1}', "bad")

    said = refusal(project.run, reading({**namespace, "hub": hub, "start": "start"}, "json: id int"))

    assert "the record at partition 0, offset 1 is not json of the declared schema: bad; " in said


def written(kafka: Kafka, namespace: dict[str, object], sink: str) -> tuple[str, str]:
    hub = kafka.create()
    text = f"""
    name: p
    sources:
      rows: {{files: {{path: input, format: csv, schema: "body string, who string"}}}}
    sinks:
      out: {{from: rows, eventhubs: {json.dumps({**namespace, "hub": hub})[:-1]}{sink}}}}}
    """
    return hub, text


@pytest.fixture
def rows(project):
    """Six rows of two senders, in one file and so in one task."""
    project.put("input/1.csv", "".join(f"message {number},{'ab'[number % 2]}\n" for number in range(6)))
    return project


def test_bodies_are_sent_to_the_partitions_in_turn(rows, kafka, namespace):
    hub, text = written(kafka, namespace, "")

    rows.run(text)

    found = kafka.read(hub, 6)
    assert sorted(message.value().decode() for message in found) == [f"message {number}" for number in range(6)]
    assert [message.key() for message in found] == [None] * 6
    assert {message.partition() for message in found} == {0, 1}


def test_events_with_the_same_key_go_to_one_partition(rows, kafka, namespace):
    hub, text = written(kafka, namespace, ", partition_key: who")

    rows.run(text)

    found = {(message.key(), message.partition()) for message in kafka.read(hub, 6)}
    assert sorted(key for key, _ in found) == [b"a", b"b"]


def test_whole_rows_are_sent_as_json_and_a_missing_body_is_named(rows, kafka, namespace, refusal):
    hub, text = written(kafka, namespace, ", value: json")
    rows.run(text)

    assert kafka.values(hub, 6)[0] == '{"body":"message 0","who":"a"}'

    _, wrong = written(kafka, namespace, ", body: text")
    said = refusal(rows.run, wrong.replace("name: p", "name: q"), checked=False)
    assert said.endswith(
        "its rows have no column 'text'; there is body and who; "
        "name one with 'body' or 'partition_key', or set 'value: json' to send whole rows"
    )


def test_a_hub_is_one_of_several_targets(rows, kafka, namespace):
    hub, _ = written(kafka, namespace, "")

    rows.run(f"""
    name: p
    sources:
      rows: {{files: {{path: input, format: csv, schema: "body string, who string"}}}}
    sinks:
      out:
        from: rows
        to:
          - eventhubs: {json.dumps({**namespace, "hub": hub})}
          - files: {{path: out, format: json}}
    """)

    assert len(kafka.values(hub, 6)) == 6
    assert len(rows.written("out/*", "json")) == 6


def test_a_hub_that_is_missing_and_a_wrong_key_are_named(secured, namespace, refusal):
    tls = {key: str(value) for key, value in secured.options("tls")["tls"].items()}
    right = secured.broker.secured.connection
    connection, address = {"tls": tls, "connection": right}, secured.at("sasl-plain")

    missing = EventHubsSource.model_validate({**connection, "hub": "nowhere-at-all"})
    wrong = EventHubsSource.model_validate({**connection, "hub": "x", "connection": right + "x"})

    assert refusal(probe, missing, 5, lambda _: None).startswith(
        f"the namespace at {address} has no hub 'nowhere-at-all'; "
    )
    assert refusal(probe, wrong, 5, lambda _: None).startswith(
        f"Kafka at {address} refuses user '$ConnectionString': wrong user or password (PLAIN); "
    )


def test_a_hub_is_fed_and_recorded(secured, kafka, tmp_path):
    hub, variables = kafka.create(), secured.broker.secured.variables

    fed = penstock("feed", "sensors", "--to", f"eventhubs:{hub}", "--count", "50", folder=tmp_path, **variables)
    kept = penstock("record", f"eventhubs:{hub}", "--to", "fed.jsonl", folder=tmp_path, **variables)

    assert (fed.returncode, kept.returncode) == (0, 0), fed.stderr + kept.stderr
    values = [json.loads(line)["value"] for line in (tmp_path / "fed.jsonl").read_text().splitlines()[1:]]
    assert sorted(values) == kafka.values(hub, 50)


def options_of(secured: SecuredBroker, hub: str) -> dict[str, object]:
    return {"connection": secured.broker.secured.connection, "tls": secured.options("tls")["tls"], "hub": hub}


class TestEventHubsSource(SourceSuite):
    @pytest.fixture(autouse=True)
    def _hub(self, secured, kafka):
        self.secured, self.hub = secured, kafka.create()

    def source(self, place):  # noqa: ARG002
        return EventHubsSource.model_validate(options_of(self.secured, self.hub))


class TestEventHubsSink(SinkSuite):
    has_columns = False  # events take any row

    @pytest.fixture(autouse=True)
    def _namespace(self, secured, kafka):
        self.secured, self.kafka = secured, kafka

    def sink(self, place):  # noqa: ARG002
        return EventHubsSink.model_validate({**options_of(self.secured, self.kafka.create()), "value": "json"})

    def written(self, sink):
        found = [json.loads(message.value()) for message in self.kafka.committed(sink.hub)]
        return [(each["id"], each.get("name"), each.get("amount")) for each in found]
