"""The command line as a user has it: another process."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

EXAMPLES = Path(__file__).parents[2] / "examples"
WAIT_SECONDS = 300.0


def penstock(*arguments: str | Path, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command run to its end."""
    return subprocess.run(
        [sys.executable, "-m", "penstock", *map(str, arguments)],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )


class Running:
    """A command under way; what it says is in files."""

    def __init__(self, process: subprocess.Popen[bytes], said: Path, printed: Path) -> None:
        self.process, self._said, self._printed = process, said, printed

    @property
    def said(self) -> str:
        """Its standard error so far."""
        return self._said.read_text(encoding="utf-8", errors="replace")

    @property
    def printed(self) -> str:
        """Its standard output so far."""
        return self._printed.read_text(encoding="utf-8", errors="replace")

    @property
    def driver(self) -> psutil.Process:
        """The driver's Python process, a child in a session of its own."""
        return next(each for each in psutil.Process(self.process.pid).children() if "penstock.driver" in each.cmdline())

    @property
    def family(self) -> list[psutil.Process]:
        """The command and all that it has started: driver, JVM, Python workers."""
        with suppress(psutil.NoSuchProcess):
            whole = psutil.Process(self.process.pid)
            return [whole, *whole.children(recursive=True)]
        return []

    def kill(self) -> None:
        """SIGKILL for the command, its driver and its JVM at once: the power goes."""
        for each in self.family:
            with suppress(psutil.NoSuchProcess):
                each.kill()
        self.process.wait()


@contextmanager
def started(*arguments: str | Path, folder: Path, **environment: str) -> Iterator[Running]:
    """A command in the background, killed with all that it has started at the end."""
    said, printed = folder / f"said-{time.monotonic_ns()}", folder / f"printed-{time.monotonic_ns()}"
    with said.open("wb") as errors, printed.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "penstock", *map(str, arguments)],
            cwd=folder,
            env={**os.environ, **environment},
            stdout=output,
            stderr=errors,
            start_new_session=True,
        )
    running = Running(process, said, printed)
    try:
        yield running
    finally:
        running.kill()


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for a condition; fail with what was waited for."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.1)


def produce(servers: str, topic: str, values: list[bytes]) -> None:
    """Send records without a key and wait for the broker to have them."""
    producer = Producer({"bootstrap.servers": servers, "acks": "all", "linger.ms": 5})
    for value in values:
        producer.produce(topic, value)
        producer.poll(0)
    assert producer.flush(30) == 0


def consume(servers: str, topic: str) -> list[bytes]:
    """Every committed value of a topic, read by another client than Spark's."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "judge", "enable.auto.commit": False})
    try:
        partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
        ends = {n: consumer.get_watermark_offsets(TopicPartition(topic, n), timeout=10)[1] for n in partitions}
        consumer.assign([TopicPartition(topic, n, 0) for n in partitions])
        found: list[bytes] = []
        while len(found) < sum(ends.values()):
            found += [message.value() for message in consumer.consume(10_000, timeout=1) if not message.error()]
        return found
    finally:
        consumer.close()


def topics(servers: str) -> set[str]:
    """The topics that a broker has."""
    return set(AdminClient({"bootstrap.servers": servers}).list_topics(timeout=10).topics)
