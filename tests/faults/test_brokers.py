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
from tests.services.command import penstock, started, topics, until
from tests.services.fixtures import Kafka

from penstock import jars
from penstock.services import KafkaBroker
from penstock.services.kafka import free_port


@pytest.fixture
def own(tmp_path: Path) -> Iterator[KafkaBroker]:
    """A broker that a test may kill."""
    kafka = KafkaBroker(tmp_path / "kafka", jars.fetch([KafkaBroker.jars]), free_port())
    kafka.start(lambda _: None)
    yield kafka
    kafka.stop()


def make(world: World, partitions: int = 2) -> None:
    admin = AdminClient({"bootstrap.servers": world.kafka.address})
    for made in admin.create_topics([NewTopic(world.source, partitions, 1)]).values():
        made.result(timeout=30)


def delete(world: World) -> None:
    admin = AdminClient({"bootstrap.servers": world.kafka.address})
    for gone in admin.delete_topics([world.source]).values():
        gone.result(timeout=30)
    until(lambda: world.source not in topics(world.kafka.address), "the topic to be gone")


@pytest.mark.faults
def test_a_broker_that_is_away_at_the_start_killed_and_paused_costs_nothing(own: KafkaBroker, tmp_path: Path):
    address = own.start(lambda _: None)
    world = World(tmp_path, Kafka(address))
    file = world.write(most=200)
    world.feed(2000)
    own.stop()
    with started("run", file, "--wait", "120", folder=tmp_path) as run:
        until(lambda: f"broker at {address}" in run.said or run.process.poll() is not None, f"a word\n{run.said}")
        assert not world.checkpoint.exists()
        until(lambda: is_up(own), "the broker on its old port")
        until(lambda: world.commits() > 1 or run.process.poll() is not None, f"batches\n{run.said}")
        os.kill(pid(own), signal.SIGKILL)
        until(lambda: own.status().state != "running", "the broker's end")
        until(lambda: is_up(own), "the broker on its old port")
        world.feed(2000)
        until(lambda: world.has_all() or run.process.poll() is not None, f"the ids after the kill\n{run.said}")
        os.kill(pid(own), signal.SIGSTOP)
        until(lambda: "the query 'out' is stalled" in run.said, f"the word that it is stalled\n{run.said}")
        status = penstock("status", "copy", folder=tmp_path)
        assert "copy: stalled for " in status.stdout, status
        assert "source 'ids': " in status.stdout, status
        os.kill(pid(own), signal.SIGCONT)
        world.feed(1000)
        until(lambda: world.has_all() or run.process.poll() is not None, f"all ids\n{run.said}")
        run.process.terminate()
        assert run.process.wait(120) == 0, run.said
    world.judge(repeated=600)


@pytest.mark.faults
def test_a_record_that_is_too_large_for_the_target_stops_the_pipeline_and_says_so(world: World, tmp_path: Path):
    admin = AdminClient({"bootstrap.servers": world.kafka.address})
    wide = NewTopic("wide-" + world.source, 1, 1, config={"max.message.bytes": "4000000"})
    for made in admin.create_topics([wide]).values():
        made.result(timeout=30)
    producer = Producer({"bootstrap.servers": world.kafka.address, "message.max.bytes": 4_000_000})
    producer.produce(wide.topic, b"x" * 1_500_000)
    assert producer.flush(30) == 0
    world.source = wide.topic

    ran = penstock("run", world.write(most=100), folder=tmp_path)

    assert ran.returncode == 1
    assert "1500" in ran.stderr
    assert "max.request.size" in ran.stderr
    assert world.events("restarting") == []


@pytest.mark.faults
def test_records_that_expired_are_named_to_the_offset_and_skipped_only_when_told(world: World, tmp_path: Path):
    world.write(most=10_000)
    world.feed(200)
    assert penstock("run", "copy.yaml", "--once", folder=tmp_path).returncode == 0
    world.feed(400)
    gone = {value for value in world.sent[200:] if value.startswith("p0")}
    world.kafka.forget(world.source, 0, before=300)

    failed = penstock("run", "copy.yaml", folder=tmp_path)

    assert failed.returncode == 1
    said = f"200 records of {world.source} partition 0, offsets 100 to 300 (they were deleted or have expired)"
    assert said in failed.stderr
    assert "starting Spark" not in failed.stderr

    world.write(most=10_000, more=", on_data_loss: skip")
    skipped = penstock("run", "copy.yaml", "--once", folder=tmp_path)

    assert skipped.returncode == 0, skipped.stderr
    (gap,) = world.events("gap")
    assert (gap["topic"], gap["partition"], gap["start"], gap["end"], gap["count"]) == (world.source, 0, 100, 300, 200)
    assert len(gone) == 200
    world.sent = [value for value in world.sent if value not in gone]
    world.judge()
    assert "a gap of 200 records" in penstock("history", "copy", folder=tmp_path).stdout


@pytest.mark.faults
def test_a_topic_that_is_made_anew_is_known_by_its_id_even_when_it_is_longer_than_before(world: World, tmp_path: Path):
    world.write(most=10_000)
    world.feed(200)
    assert penstock("run", "copy.yaml", "--once", folder=tmp_path).returncode == 0
    delete(world)
    gone = penstock("run", "copy.yaml", folder=tmp_path)
    assert (gone.returncode, "has no topic" in gone.stderr) == (1, True), gone.stderr
    make(world)
    world.feed(1000)

    refused = penstock("run", "copy.yaml", folder=tmp_path)

    assert refused.returncode == 1
    assert "the topic was recreated" in refused.stderr
    assert "starting Spark" not in refused.stderr

    world.write(most=10_000, more=", on_data_loss: earliest")
    again = penstock("run", "copy.yaml", "--once", folder=tmp_path)

    assert again.returncode == 0, again.stderr
    assert {event["why"] for event in world.events("gap")} == {"the topic was recreated"}
    world.judge()


@pytest.mark.faults
def test_a_topic_that_is_deleted_while_it_is_read_stops_the_pipeline(world: World, tmp_path: Path):
    world.write(most=10_000)
    world.feed(200)
    with started("run", "copy.yaml", folder=tmp_path) as run:
        until(lambda: world.has_all() or run.process.poll() is not None, f"the ids\n{run.said}")
        delete(world)
        until(lambda: run.process.poll() is not None, f"the end\n{run.said}")

        assert run.process.returncode == 1
        assert world.source in run.said or "no longer has records" in run.said
    assert len(world.events("restarting")) <= 1
