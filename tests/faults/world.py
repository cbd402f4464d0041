"""Ids go in, ids come out: what a fault may not change, judged by other readers than Spark."""

from __future__ import annotations

import json
import sqlite3
import textwrap
import time
import zlib
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pyarrow.dataset
from confluent_kafka import Message, Producer
from deltalake import DeltaTable
from tests.conftest import Project
from tests.services.fixtures import Kafka

from penstock.driver.preflight import Preflight
from penstock.engine import prepare
from penstock.errors import ServiceError
from penstock.events import ignore_event
from penstock.load import load
from penstock.services.service import Service
from penstock.storage.layout import Storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Two targets of one sink: a folder, where a batch appears whole or not at all, and a topic, at-least-once.
COPY = """
    name: copy
    restart: {{limit: 1000, backoff: 100 milliseconds, most: 1 second}}
    spark: {{spark.driver.memory: 1g}}
    sources:
      ids:
        kafka: {{servers: "{servers}", topics: [{source}], start: earliest, records_per_trigger: {most}{more}}}
        value: string
    sinks:
      out:
        from: ids
        to:
          - files: {{path: out, format: parquet}}
          - kafka: {{servers: "{servers}", topic: {target}, value_column: value}}
"""


@dataclass
class World:
    """One pipeline, its topics, and every id that the broker has acknowledged."""

    folder: Path
    kafka: Kafka
    sent: list[str] = field(default_factory=list)
    source: str = ""
    target: str = ""

    def __post_init__(self) -> None:
        self.source, self.target = self.kafka.create(prefix="in"), self.kafka.create(prefix="out")

    @property
    def storage(self) -> Path:
        """Of the pipeline `copy`."""
        return self.folder / ".penstock" / "copy"

    @property
    def checkpoint(self) -> Path:
        """Of the sink `out`."""
        return self.storage / "checkpoints" / "out"

    def write(self, text: str = COPY, *, most: int = 500, more: str = "", file: str = "copy.yaml") -> Path:
        """The pipeline's file."""
        path = self.folder / file
        facts = {"servers": self.kafka.address, "source": self.source, "target": self.target, "most": most}
        path.write_text(textwrap.dedent(text.format(**facts, more=more)))
        return path

    def feed(self, count: int) -> None:
        """Send ids with a checksum; only those that the broker acknowledges count as sent."""
        producer = Producer({"bootstrap.servers": self.kafka.address, "acks": "all", "linger.ms": 5})

        def acked(error: object, message: Message) -> None:
            assert error is None, error
            self.sent.append(message.value().decode())

        first = len(self.sent)
        for number in range(first, first + count):
            name = f"p{number % 2}-{number}"
            value = f"{name}:{zlib.crc32(name.encode())}"
            producer.produce(self.source, value, partition=number % 2, on_delivery=acked)
            producer.poll(0)
        assert producer.flush(60) == 0

    def files(self) -> Counter[str]:
        """The ids in the folder, read by Arrow; a batch under way is in `_writing`, which nobody reads."""
        if not list((self.folder / "out").glob("batch=*")):
            return Counter()
        return Counter(pyarrow.dataset.dataset(self.folder / "out", format="parquet").to_table()["value"].to_pylist())

    def records(self) -> Counter[str]:
        """The committed ids in the topic, read by Kafka's own client."""
        return Counter(message.value().decode() for message in self.kafka.committed(self.target))

    def repeated(self) -> int:
        """How many records of the topic are there again."""
        return sum((self.records() - Counter(self.sent)).values())

    def has_all(self) -> bool:
        """Whether every id that was sent is in the folder."""
        return sum(self.files().values()) >= len(self.sent)

    def judge(self, *, repeated: int = 0) -> None:
        """None lost, none invented, none twice in the folder, and at most so many twice in the topic."""
        wanted, files, records = Counter(self.sent), self.files(), self.records()
        for found in (files, records):
            assert set(found) == set(wanted), f"lost {len(wanted - found)}, invented {len(set(found) - set(wanted))}"
            for value in found:
                name, _, checksum = value.partition(":")
                assert zlib.crc32(name.encode()) == int(checksum)
        assert not files - wanted, f"{sum((files - wanted).values())} twice in the folder"
        again = sum((records - wanted).values())
        assert again <= repeated, f"{again} records twice in the topic, at most {repeated} may be"

    def judge_targets(self, folder: Path) -> None:
        """Every id once in `out`, `delta`, `shop.db` and the topic; none of the readers is Spark."""
        wanted = Counter(self.sent)
        parquet = pyarrow.dataset.dataset(folder / "out", format="parquet").to_table()
        assert Counter(parquet["value"].to_pylist()) == wanted, "files"
        delta = DeltaTable(str(folder / "delta")).to_pyarrow_table()
        assert Counter(delta["value"].to_pylist()) == wanted, "delta"
        with closing(sqlite3.connect(folder / "shop.db")) as connection:
            assert Counter(row[0] for row in connection.execute("SELECT value FROM ids")) == wanted, "jdbc"
        assert self.records() == wanted, "kafka"

    def resume(self, spark: SparkSession) -> None:
        """Continue from the checkpoint and read what is there, as a driver does, but with a Spark that runs already."""
        pipeline = prepare(load(self.folder / "copy.yaml"), lambda _: None)
        Preflight(pipeline, Storage.of(pipeline), ignore_event).run()
        Project(self.folder, spark).run_once(pipeline)

    def commits(self) -> int:
        """How many batches were committed."""
        return len(self._numbers("commits"))

    def last(self, log: str) -> int:
        """The newest number in `offsets` or `commits`; -1 before the first."""
        return max(self._numbers(log), default=-1)

    def events(self, what: str = "", name: str = "copy") -> list[dict[str, object]]:
        """What the event log says."""
        files = sorted((self.folder / ".penstock" / name / "events").glob("*.jsonl"))
        found = [json.loads(line) for file in files for line in file.read_text().splitlines()]
        return [event for event in found if what in ("", event["what"])]

    def _numbers(self, log: str) -> list[int]:
        folder = self.checkpoint / log
        names = [each.name for each in folder.iterdir()] if folder.is_dir() else []
        return [int(name) for name in names if name.isdigit()]


def session_of(driver: psutil.Process) -> list[psutil.Process]:
    """The driver and what it has started: its JVM and their Python workers."""
    return [driver, *driver.children(recursive=True)]


def kill_all(processes: list[psutil.Process]) -> None:
    """SIGKILL, all at once."""
    for each in processes:
        # Some end with those that were killed before them.
        with suppress(psutil.NoSuchProcess):
            each.kill()


def at_once(condition: Callable[[], bool], most_seconds: float = 120.0) -> None:
    """Wait for a moment that lasts milliseconds."""
    deadline = time.monotonic() + most_seconds
    while not condition():
        assert time.monotonic() < deadline, "the moment did not come"
        time.sleep(0.0005)


def pid(service: Service) -> int:
    """Of a service that runs."""
    found = service.status().pid
    assert found is not None
    return found


def is_up(service: Service) -> bool:
    """A client that asks a dead service may be given its very port to ask from: then it is taken for a moment."""
    try:
        service.start(lambda _: None)
    except ServiceError:
        return False
    return True
