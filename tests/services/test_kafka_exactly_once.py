"""`delivery: exactly-once`, judged by Kafka's own client with read_committed."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from tests.failing_sink import FailOnce, with_hook

from penstock.connectors.kafka import _transactions as kafka_transactions
from penstock.connectors.kafka._transactions import TransactionSpec, send
from penstock.errors import LoadError, PenstockError
from penstock.load import load


def pipeline(kafka, topic: str, more: str = "") -> str:
    return f"""
    name: once
    sources:
      numbers: {{files: {{path: in, format: json, schema: n int, files_per_trigger: 1}}}}
    sinks:
      out:
        from: numbers
        kafka: {{servers: "{kafka.address}", topic: {topic}, key: n, delivery: exactly-once{more}}}
    """


@pytest.fixture
def numbers(project):
    for number in range(3):
        project.put(f"in/{number}.json", "".join(f'{{"n": {number * 100 + each}}}\n' for each in range(50)))
    return project


EXPECTED = sorted(number * 100 + each for number in range(3) for each in range(50))


def committed(kafka, topic: str) -> list[int]:
    """Every key that a consumer of committed records sees, up to the end of the topic as it is now."""
    settings = {"bootstrap.servers": kafka.address, "group.id": uuid.uuid4().hex, "enable.partition.eof": True}
    consumer = Consumer({**settings, "isolation.level": "read_committed"})
    partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
    found, ends = [], set()
    while len(ends) < len(partitions):
        message = consumer.poll(30)
        assert message is not None, "the broker does not answer"
        if message.error():
            ends.add(message.partition())
        else:
            found.append(int(message.key()))
    consumer.close()
    return sorted(found)


def test_every_row_is_sent_once(numbers, kafka, topic):
    numbers.run(pipeline(kafka, topic))

    assert committed(kafka, topic) == EXPECTED


def test_a_batch_that_is_replayed_after_its_commit_is_not_sent_again(numbers, kafka, topic):
    """The ledger does not have it; Kafka itself knows that it has the batch."""
    loaded = numbers.load(pipeline(kafka, topic))
    (target,) = loaded.sinks[0].targets
    loaded = with_hook(loaded, target.name, FailOnce(batch=1, moment="written"))
    with pytest.raises(PenstockError, match="a crash"):
        numbers.run_once(loaded)

    numbers.run_once(loaded)

    assert committed(kafka, topic) == EXPECTED


def test_half_of_a_batch_is_never_seen(spark, kafka, topic):
    """One task of two fails after it has sent its rows: its transaction is open, the other one's is committed."""
    rows = spark.range(100).selectExpr("cast(id AS string) AS key", "cast(id AS string) AS value")
    client = {"bootstrap.servers": kafka.address}
    spec = TransactionSpec(topic, client, f"w{topic}", "q", 0, 30.0)
    real = kafka_transactions._produce

    def breaks(producer, spec, batch):
        real(producer, spec, batch)
        producer.flush(30)
        raise RuntimeError("the power goes")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(kafka_transactions, "_produce", breaks)
        sent = kafka_transactions._begin(spec, 0)
        with pytest.raises(RuntimeError, match="power"):
            sent.send(iter(rows.limit(10).toArrow().to_batches()), spec)
    assert committed(kafka, topic) == []

    send(rows, spec, tasks=2)
    send(rows, spec, tasks=2)

    assert committed(kafka, topic) == list(range(100))


def test_another_checkpoint_sends_its_own_batches(numbers, kafka, topic):
    loaded = numbers.load(pipeline(kafka, topic))
    numbers.run_once(loaded)
    shutil.rmtree(Path(numbers.folder, ".penstock", "once", "checkpoints"))
    numbers.run_once(loaded)

    assert committed(kafka, topic) == sorted(EXPECTED * 2)


def test_another_number_of_writers_is_refused_for_the_same_checkpoint(numbers, kafka, topic, refusal):
    numbers.run(pipeline(kafka, topic))
    numbers.put("in/3.json", '{"n": 300}')

    kafka_transactions._checked_groups.clear()
    said = refusal(numbers.run, pipeline(kafka, topic, ", writers: 3"))

    assert "'writers' is 3, and the batches of this checkpoint are shared by 1; set 'writers: 1'" in said


def test_it_works_beside_other_targets(numbers, kafka, topic):
    text = pipeline(kafka, topic).replace(
        "kafka: {", "to:\n          - files: {path: out, format: json}\n          - kafka: {"
    )
    numbers.run(text)

    assert committed(kafka, topic) == EXPECTED
    assert sorted(numbers.spark.read.schema("n int").json(f"{numbers.folder}/out").toPandas()["n"]) == EXPECTED


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("topic_column: t, delivery: exactly-once", "'delivery: exactly-once' records its batches in one topic"),
        ("topic: t, writers: 3", "'writers' and 'transaction_timeout' belong to 'delivery: exactly-once'"),
    ],
)
def test_what_does_not_fit_together_is_refused(project, options, says):
    text = f"""
    sources: {{a: {{rate: }}}}
    sinks: {{b: {{from: a, kafka: {{servers: "x:1", {options}}}}}}}
    """
    with pytest.raises(LoadError, match=says):
        load(project.put("p.yaml", text))


def test_the_fast_triggers_are_for_at_least_once(project):
    from penstock.checks import check

    text = """
    sources: {a: {kafka: {servers: "x:1", topics: [t]}}}
    sinks:
      b: {from: a, kafka: {servers: "x:1", topic: u, delivery: exactly-once}, trigger: continuous 1 second}
    """
    found = [str(finding) for finding in check(load(project.put("p.yaml", text)))]

    assert any("kafka cannot be written with trigger 'continuous 1 second'" in each for each in found), found
