"""What a broker can do to a pipeline: go away, forget records, lose a topic and have another by its name."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.faults.world import World, is_up, pid
from tests.services.command import Running, penstock, started, topics, until
from tests.services.fixtures import Kafka

from penstock import jars
from penstock.services import KafkaBroker
from penstock.services.kafka import free_port


@pytest.fixture
def own(tmp_path: Path) -> Iterator[KafkaBroker]:
    """A broker that a test may kill."""
    kafka = KafkaBroker(tmp_path / "kafka", jars.fetch([KafkaBroker.jars]), free_port())
    yield kafka
    kafka.stop()


def make(world: World, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": world.kafka.address})
    for made in admin.create_topics([NewTopic(world.source, 2, 1, config=config)]).values():
        made.result(timeout=30)


def delete(world: World) -> None:
    admin = AdminClient({"bootstrap.servers": world.kafka.address})
    for gone in admin.delete_topics([world.source]).values():
        gone.result(timeout=30)
    until(lambda: world.source not in topics(world.kafka.address), "the topic to be gone")


def read_all(world: World, run: Running) -> None:
    until(lambda: world.has_all() or run.process.poll() is not None, f"all ids\n{run.said}")
    assert run.process.poll() is None, run.said


@pytest.mark.faults
def test_a_broker_that_is_away_killed_and_paused_costs_nothing_and_a_deleted_topic_stops_the_pipeline(
    own: KafkaBroker, tmp_path: Path
):
    address = own.start(lambda _: None)
    world = World(tmp_path, Kafka(address))
    file = world.write(most=200)
    world.feed(1000)
    own.stop()
    with started("run", file, "--wait", "120", folder=tmp_path) as run:
        until(lambda: f"broker at {address}" in run.said or run.process.poll() is not None, f"a word\n{run.said}")
        assert not world.checkpoint.exists()
        until(lambda: is_up(own), "the broker on its old port")
        until(lambda: world.commits() > 1 or run.process.poll() is not None, f"batches\n{run.said}")
        os.kill(pid(own), signal.SIGKILL)
        until(lambda: own.status().state != "running", "the broker's end")
        until(lambda: is_up(own), "the broker on its old port")
        world.feed(600)
        read_all(world, run)
        os.kill(pid(own), signal.SIGSTOP)
        until(lambda: "the query 'out' is stalled" in run.said, f"the word that it is stalled\n{run.said}")
        status = penstock("status", "copy", folder=tmp_path)
        assert "copy: stalled for " in status.stdout, status
        assert "source 'ids': " in status.stdout, status
        os.kill(pid(own), signal.SIGCONT)
        world.feed(200)
        read_all(world, run)
        world.judge(repeated=600)
        deleted_while_it_is_read(world, run)


def deleted_while_it_is_read(world: World, run: Running) -> None:
    """A topic that is deleted while it is read stops the pipeline."""
    restarts = len(world.events("restarting"))
    delete(world)
    until(lambda: run.process.poll() is not None, "the end of the run")

    assert run.process.returncode == 1
    assert world.source in run.said or "no longer has records" in run.said
    assert len(world.events("restarting")) <= restarts + 1


@pytest.mark.faults
def test_what_a_topic_has_lost_is_named_before_spark_starts_and_skipped_only_when_told(world: World, tmp_path: Path):
    world.write(most=10_000)
    world.feed(200)
    assert penstock("run", "copy.yaml", "--once", folder=tmp_path).returncode == 0

    expired(world)
    world.write(most=10_000, more=", on_data_loss: skip")
    with started("run", "copy.yaml", folder=tmp_path) as run:
        read_all(world, run)
        run.process.terminate()
        assert run.process.wait(120) == 0, run.said
    world.judge()
    (gap,) = world.events("gap")
    assert (gap["topic"], gap["partition"], gap["start"], gap["end"], gap["count"]) == (world.source, 0, 100, 300, 200)
    assert "a gap of 200 records" in penstock("history", "copy", folder=tmp_path).stdout

    recreated(world)
    world.write(most=10_000, more=", on_data_loss: earliest")
    with started("run", "copy.yaml", folder=tmp_path) as run:
        read_all(world, run)
        assert {event["why"] for event in world.events("gap")[1:]} == {"the topic was recreated"}
        world.judge()
        too_large_for_the_target(world, run)


def expired(world: World) -> None:
    """Records that are gone before they were read are named to the offset."""
    world.feed(400)
    gone = {value for value in world.sent[200:] if value.startswith("p0")}
    assert len(gone) == 200
    world.kafka.forget(world.source, 0, before=300)

    failed = penstock("run", "copy.yaml", folder=world.folder)

    assert failed.returncode == 1
    said = f"200 records of {world.source} partition 0, offsets 100 to 300 (they were deleted or have expired)"
    assert said in failed.stderr
    assert "starting Spark" not in failed.stderr
    world.sent = [value for value in world.sent if value not in gone]


def recreated(world: World) -> None:
    """A topic that is created again is known by its id, even when it is longer than before."""
    delete(world)
    gone = penstock("run", "copy.yaml", folder=world.folder)
    assert (gone.returncode, "has no topic" in gone.stderr) == (1, True), gone.stderr
    make(world, **{"max.message.bytes": "4000000"})
    world.feed(1000)
    world.write(most=10_000)

    refused = penstock("run", "copy.yaml", folder=world.folder)

    assert refused.returncode == 1
    assert "the topic was recreated" in refused.stderr
    assert "starting Spark" not in refused.stderr


def too_large_for_the_target(world: World, run: Running) -> None:
    """A record that is larger than the target takes stops the pipeline at once."""
    restarts = len(world.events("restarting"))
    producer = Producer({"bootstrap.servers": world.kafka.address, "message.max.bytes": 4_000_000})
    producer.produce(world.source, b"x" * 1_500_000)
    assert producer.flush(30) == 0
    until(lambda: run.process.poll() is not None, f"the end\n{run.said}")

    assert run.process.returncode == 1
    assert "1500" in run.said
    assert "max.request.size" in run.said
    assert len(world.events("restarting")) == restarts
