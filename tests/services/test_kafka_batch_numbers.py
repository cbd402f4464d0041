"""The numbers of exactly-once batches in Kafka: who shares them, who is fenced, and what happens when they expire."""

from __future__ import annotations

import json
import uuid

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from penstock.connector import Batch
from penstock.connectors.kafka import KafkaSink, _transactions
from penstock.connectors.kafka._transactions import TransactionSpec

PIPELINE = """
name: once
sources:
  numbers: {{files: {{path: in, format: json, schema: n int, files_per_trigger: 1}}}}
sinks:
  out: {{from: numbers, kafka: {{servers: "{address}", topic: {topic}, key: n, delivery: exactly-once}}}}
"""


@pytest.fixture
def name() -> str:
    """A writer of its own."""
    return f"p{uuid.uuid4().hex[:8]}.out.kafka"


def keys(kafka, topic: str) -> list[int]:
    return sorted(int(message.key()) for message in kafka.committed(topic))


def rows_of(spark, *numbers: int):
    return spark.createDataFrame([(number,) for number in numbers], "n int")


def opened(spark, kafka, topic: str, **options):
    sink = KafkaSink(servers=kafka.address, topic=topic, key="n", delivery="exactly-once", **options)
    return sink.open(spark, rows_of(spark).schema, "append")


def spec_of(kafka, topic: str, name: str, query: str, number: int = 0) -> TransactionSpec:
    return TransactionSpec(topic, {"bootstrap.servers": kafka.address}, name, query, number, 30.0)


def expire(kafka, *groups: str) -> None:
    """As the broker does after days without a commit."""
    admin = AdminClient({"bootstrap.servers": kafka.address})
    for deleted in admin.delete_consumer_groups(list(groups)).values():
        deleted.result(30)


def commits_of(kafka, group: str) -> int:
    """How often the offset of a group was committed, by the broker's own topic."""
    settings = {"bootstrap.servers": kafka.address, "group.id": uuid.uuid4().hex, "enable.partition.eof": True}
    consumer = Consumer({**settings, "isolation.level": "read_uncommitted"})
    log = "__consumer_offsets"
    partitions = consumer.list_topics(log, timeout=30).topics[log].partitions
    consumer.assign([TopicPartition(log, number, OFFSET_BEGINNING) for number in partitions])
    count = ends = 0
    while ends < len(partitions):
        message = consumer.poll(30)
        assert message is not None, "the broker does not answer"
        ends += bool(message.error())
        count += not message.error() and group.encode() in (message.key() or b"") and message.value() is not None
    consumer.close()
    return count


def test_a_writer_that_a_dead_run_of_the_same_checkpoint_left_is_fenced(project, kafka, topic):
    pipeline = PIPELINE.format(address=kafka.address, topic=topic)
    project.put("in/0.json", '{"n": 0}')
    project.run(pipeline)
    query = json.loads((project.folder / ".penstock/once/checkpoints/out/metadata").read_text())["id"]
    own_id = spec_of(kafka, topic, "once.out.kafka", query).transactional_id(0)
    zombie = Producer({"bootstrap.servers": kafka.address, "transactional.id": own_id})
    zombie.init_transactions(30)
    zombie.begin_transaction()
    zombie.produce(topic, b"left behind", key=b"-1")
    zombie.flush(30)
    project.put("in/1.json", '{"n": 1}')

    project.run(pipeline)

    with pytest.raises(Exception, match=r"(?i)fenced|newer instance|epoch"):
        zombie.commit_transaction(30)
    assert keys(kafka, topic) == [0, 1]


@pytest.mark.parametrize("other", ["checkpoint", "topic"])
def test_the_same_name_with_another_checkpoint_or_topic_is_not_fenced(spark, kafka, topic, name, other):
    """Two storages of one pipeline, at work at the same time."""
    second = spec_of(kafka, topic, name, "b") if other == "checkpoint" else spec_of(kafka, kafka.create(), name, "a")
    first = spec_of(kafka, topic, name, "a")
    at_work = _transactions._begin(first, 0)
    beside = _transactions._begin(second, 0)
    rows = spark.createDataFrame([("0", "0")], "key string, value string").toArrow().to_batches()

    beside.send(iter(rows), second)
    at_work.send(iter(rows), first)

    assert keys(kafka, topic) + (keys(kafka, second.topic) if other == "topic" else []) == [0, 0]


@pytest.mark.parametrize("writers", [1, 2])
def test_the_last_batch_is_known_to_kafka(spark, kafka, topic, name, writers):
    writer = opened(spark, kafka, topic, writers=writers)
    for number in range(3):
        writer.write(rows_of(spark, number), Batch(number, "q", name))
    another = opened(spark, kafka, topic, writers=writers)

    assert another.last_batch(Batch(2, "q", name)) == 2
    assert another.last_batch(Batch(2, "another", name)) is None


def test_a_batch_without_rows_has_its_number_too(spark, kafka, topic, name):
    writer = opened(spark, kafka, topic)
    writer.write(rows_of(spark, 1).where("n > 1"), Batch(0, "q", name))
    writer.write(rows_of(spark), Batch(1, "q", name))

    assert opened(spark, kafka, topic).last_batch(Batch(1, "q", name)) == 1


def test_a_batch_that_was_sent_by_one_of_two_writers_is_not_the_last(spark, kafka, topic, name):
    writer = opened(spark, kafka, topic, writers=2)
    writer.write(rows_of(spark, *range(10)), Batch(0, "q", name))
    half = spec_of(kafka, topic, name, "q", 1)
    _transactions._begin(half, 0).send(iter([]), half)

    assert opened(spark, kafka, topic, writers=2).last_batch(Batch(0, "q", name)) == 0


def test_a_start_commits_the_number_anew(spark, kafka, topic, name):
    """The broker counts the days from the last commit."""
    opened(spark, kafka, topic).write(rows_of(spark, 0), Batch(0, "q", name))
    group = spec_of(kafka, topic, name, "q").group(0)
    before = commits_of(kafka, group)

    opened(spark, kafka, topic).last_batch(Batch(0, "q", name))

    assert (before, commits_of(kafka, group)) == (1, 2)


def test_a_batch_whose_number_has_expired_is_refused_until_the_file_allows_to_send_it(
    spark, kafka, topic, name, refusal
):
    opened(spark, kafka, topic).write(rows_of(spark, 0), Batch(0, "q", name))
    group = spec_of(kafka, topic, name, "q").group(0)
    expire(kafka, group)
    writer = opened(spark, kafka, topic)
    assert writer.last_batch(Batch(0, "q", name)) is None

    assert refusal(writer.write, rows_of(spark, 1), Batch(1, "q", name)) == (
        f"Kafka does not know whether topic '{topic}' has batch 1: consumer group {group} has expired, or the topic is "
        "a new one; set 'on_expired_group: send' for one run: the batch is sent, again if it was sent before"
    )
    assert keys(kafka, topic) == [0]

    allowed = opened(spark, kafka, topic, on_expired_group="send")
    allowed.last_batch(Batch(0, "q", name))
    allowed.write(rows_of(spark, 1), Batch(1, "q", name))
    later = opened(spark, kafka, topic)
    assert later.last_batch(Batch(1, "q", name)) == 1
    later.write(rows_of(spark, 2), Batch(2, "q", name))
    assert keys(kafka, topic) == [0, 1, 2]


def test_a_number_that_expires_while_the_pipeline_runs_and_is_idle_refuses_nothing(spark, kafka, topic, name):
    writer = opened(spark, kafka, topic)
    writer.write(rows_of(spark, 0), Batch(0, "q", name))
    expire(kafka, spec_of(kafka, topic, name, "q").group(0))

    writer.write(rows_of(spark, 1), Batch(1, "q", name))

    assert keys(kafka, topic) == [0, 1]


def test_a_new_target_of_an_old_checkpoint_starts_at_its_batch(spark, kafka, topic, name):
    """The ledger has no batch of it, so it is not asked for the last one."""
    opened(spark, kafka, topic).write(rows_of(spark, 0), Batch(41, "q", name))

    assert opened(spark, kafka, topic).last_batch(Batch(41, "q", name)) == 41
