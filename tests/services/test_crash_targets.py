"""kill -9 inside and around the writes of four targets: afterwards each of them has every record exactly once.

The judges are not Spark: pyarrow for files, deltalake, Cassandra's and Kafka's own clients. A run prints its seed and
what it killed; CRASH_SEED repeats it. `make soak` kills 30 times, `make test` once in each target.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import uuid
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

ROOT = Path(__file__).parents[2]
TARGETS = ("delta", "cassandra", "files", "kafka")
MOMENTS = ("before", "inside", "written", "noted", "anywhere")

PIPELINE = """
name: crash
spark: {{spark.driver.memory: 1g, spark.sql.shuffle.partitions: 1, spark.databricks.delta.snapshotPartitions: 1}}
sources:
  numbers:
    kafka: {{servers: "{servers}", topics: [{topic}], start: earliest, records_per_trigger: {part}}}
    json: n bigint NOT NULL
sinks:
  out:
    from: numbers
    to:
      - delta: {{path: delta}}
      - cassandra: {{hosts: "{hosts}", table: {keyspace}.numbers, create: {{key: [n]}}}}
      - files: {{path: files, format: parquet}}
      - kafka: {{servers: "{servers}", topic: {topic}-out, key: n, delivery: exactly-once}}
"""


class Scene:
    """A pipeline with four targets, what was fed into it, and who judges it."""

    def __init__(self, folder: Path, kafka, cassandra) -> None:
        self.folder, self.kafka, self.cassandra = folder, kafka, cassandra
        self.fed = 0
        self.topic = kafka.create(prefix="crash")
        kafka.create(name=f"{self.topic}-out")

    def write_pipeline(self, part: int) -> str:
        text = PIPELINE.format(
            servers=self.kafka.address,
            hosts=self.cassandra.address,
            topic=self.topic,
            keyspace=self.cassandra.keyspace,
            part=part,
        )
        (self.folder / "crash.yaml").write_text(text)
        return text

    def feed(self, count: int) -> None:
        producer = Producer({"bootstrap.servers": self.kafka.address, "linger.ms": 5})
        for number in range(self.fed, self.fed + count):
            producer.produce(self.topic, f'{{"n": {number}}}', key=str(number))
            if number % 10_000 == 0:
                producer.poll(0)
        assert producer.flush(60) == 0
        self.fed += count

    def run(self, target: str, moment: str, seed: str) -> int:
        """One life of the driver; how it ended."""
        script = "tests.services.crash_driver"
        command = [sys.executable, "-m", script, str(self.folder / "crash.yaml"), target, moment, seed]
        with (self.folder / "driver.out").open("ab") as out:
            life = subprocess.Popen(command, cwd=ROOT, start_new_session=True, stdout=out, stderr=out)
            try:
                return life.wait(timeout=900)
            finally:
                if life.poll() is None:
                    os.killpg(life.pid, 9)
                    life.wait()

    def judge(self) -> None:
        expected = Counter(range(self.fed))
        assert Counter(self._delta()) == expected, "delta"
        assert Counter(self._files()) == expected, "files"
        assert Counter(self._cassandra()) == expected, "cassandra"
        assert Counter(self._kafka()) == expected, "kafka"

    def _delta(self) -> list[int]:
        from deltalake import DeltaTable

        return DeltaTable(str(self.folder / "delta")).to_pyarrow_table()["n"].to_pylist()

    def _files(self) -> list[int]:
        import pyarrow.parquet as parquet

        files = (self.folder / "files").glob("batch=*/*.parquet")
        return [n for file in files for n in parquet.read_table(file, columns=["n"])["n"].to_pylist()]

    def _cassandra(self) -> list[int]:
        asked = f"SELECT n FROM {self.cassandra.keyspace}.numbers"
        return [row[0] for row in self.cassandra.session.execute(asked, timeout=60)]

    def _kafka(self) -> list[int]:
        settings = {"bootstrap.servers": self.kafka.address, "group.id": uuid.uuid4().hex}
        consumer = Consumer({**settings, "isolation.level": "read_committed", "enable.partition.eof": True})
        topic = f"{self.topic}-out"
        partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
        found, ends = [], set()
        while len(ends) < len(partitions):
            message = consumer.poll(60)
            assert message is not None, "the broker does not answer"
            ends.add(message.partition()) if message.error() else found.append(int(message.key()))
        consumer.close()
        return found


def crashes(scene: Scene, schedule: list[tuple[str, str]], seed: int) -> None:
    for number, (target, moment) in enumerate(schedule):
        ended = scene.run(target, moment, f"{seed}-{number}")
        print(f"life {number}: {moment} {target}: ended with {ended}")
        assert ended == -9, (scene.folder / "driver.out").read_text()[-3000:]


@pytest.fixture
def scene(tmp_path, kafka, cassandra) -> Scene:
    return Scene(tmp_path, kafka, cassandra)


def test_a_kill_inside_the_write_of_each_target_loses_and_doubles_nothing(scene, project):
    seed = int(os.environ.get("CRASH_SEED", random.randrange(10**6)))
    print(f"CRASH_SEED={seed}")
    # More batches than lives: a target that has a batch already is not written again.
    text = scene.write_pipeline(part=500)
    scene.feed(2_500)

    crashes(scene, [(target, random.Random(seed + at).choice(MOMENTS[1:4])) for at, target in enumerate(TARGETS)], seed)

    project.run(text, "crash.yaml")
    scene.judge()


@pytest.mark.soak
def test_thirty_kills_at_random_moments_lose_and_double_nothing(scene):
    seed = int(os.environ.get("CRASH_SEED", random.randrange(10**6)))
    print(f"CRASH_SEED={seed}")
    chance = random.Random(seed)
    scene.write_pipeline(part=5_000)
    feeding = threading.Thread(target=lambda: [scene.feed(10_000) for _ in range(20)])
    feeding.start()

    crashes(scene, [(chance.choice(TARGETS), chance.choice(MOMENTS)) for _ in range(30)], seed)

    feeding.join()
    assert scene.fed == 200_000
    assert scene.run("", "never", "") == 0, (scene.folder / "driver.out").read_text()[-3000:]
    scene.judge()
