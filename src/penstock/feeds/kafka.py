"""Sends records to a Kafka topic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.errors import CallError, PenstockError, UnreachableError
from penstock.feeds.loop import FeedLoop
from penstock.feeds.pace import Steady, Unpaced
from penstock.feeds.records import Record

if TYPE_CHECKING:
    from confluent_kafka import Producer

#: The partitioner is that of the Java client, and so of Spark. Only failures are reported individually: a Python
#: callback per delivered record would cost a third of the throughput.
_SETTINGS: dict[str, Any] = {
    "acks": "all",
    "linger.ms": 20,
    "compression.type": "lz4",
    "enable.idempotence": True,
    "partitioner": "murmur2_random",
    "delivery.report.only.error": True,
    "delivery.timeout.ms": 120_000,
    "queue.buffering.max.messages": 100_000,
    "queue.buffering.max.kbytes": 262_144,
    "log_level": 0,
}

_ANSWER_SECONDS = 30.0


@dataclass
class KafkaTarget:
    """A topic; `settings` are those of a secured connection, like a connector's `client_settings`.

    The queue of unacknowledged records is bounded: when the broker is slow, `send` blocks and slows the feed down.
    """

    servers: str
    topic: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    partitions: int = 0
    """The least that the topic must have, for records with a fixed partition."""
    _failures: list[str] = field(default_factory=list)
    _produced: int = 0
    _producer: Producer | None = None

    @property
    def acked(self) -> int:
        """How many records the broker has acknowledged."""
        return self._produced - len(self._failures) - (len(self._producer) if self._producer else 0)

    def open(self) -> None:
        """Create the producer and check the number of partitions."""
        from confluent_kafka import Producer

        settings = {**_SETTINGS, **self.settings, "bootstrap.servers": self.servers, "on_delivery": self._on_delivery}
        self._producer = Producer(settings)
        if self.partitions:
            self._require_partitions(self._producer)

    def send(self, records: Sequence[Record]) -> None:
        """Queue records."""
        from confluent_kafka import KafkaException

        producer = self._open_producer
        produce, topic = producer.produce, self.topic
        for record in records:
            while True:
                try:
                    if record.headers or record.timestamp is not None or record.partition is not None:
                        produce(topic, record.value, record.key, **_fixed_fields(record))
                    else:
                        produce(topic, record.value, record.key)
                    break
                except BufferError:
                    # The queue is full: wait for the broker.
                    producer.poll(0.1)
                    self._raise_failure()
                except KafkaException as error:
                    says = f"a record cannot be sent to topic {topic!r}: {error.args[0].str()}"
                    raise PenstockError(f"{says}; {self._produced:,} were sent before it") from error
            self._produced += 1
        producer.poll(0)
        self._raise_failure()

    def flush(self) -> None:
        """Wait until the broker has acknowledged everything; a delivery timeout is an error."""
        while self._open_producer.flush(1.0):
            self._raise_failure()
        self._raise_failure()

    def close(self) -> None:
        """Drop what is still queued; after a flush that is nothing."""
        if self._producer is not None and len(self._producer):
            self._producer.purge()

    @property
    def _open_producer(self) -> Producer:
        if self._producer is None:
            self.open()
        assert self._producer is not None
        return self._producer

    def _require_partitions(self, producer: Producer) -> None:
        from confluent_kafka import KafkaException

        try:
            found = len(producer.list_topics(self.topic, timeout=_ANSWER_SECONDS).topics[self.topic].partitions)
        except KafkaException as error:
            raise UnreachableError(f"Kafka at {self.servers} does not answer about its partitions: {error}") from error
        if found < self.partitions:
            says = f"topic {self.topic!r} has {found} partitions, and the recording has {self.partitions}"
            raise CallError(f"{says}; give one with as many, or --repartition to let keys choose")

    def _on_delivery(self, error: object, _message: object) -> None:
        if error is not None:
            self._failures.append(str(error))

    def _raise_failure(self) -> None:
        if self._failures:
            says = f"Kafka at {self.servers} did not accept a record of topic {self.topic!r}: {self._failures[0]}"
            raise UnreachableError(f"{says}; {self.acked:,} others have arrived")


def send(
    servers: str,
    topic: str,
    records: Iterable[Record],
    rate: float | None = None,
    progress: Callable[[int], None] = lambda _: None,
    settings: Mapping[str, Any] | None = None,
) -> int:
    """Send every record, at most `rate` a second; returns how many the broker acknowledged."""
    target = KafkaTarget(servers, topic, settings or {})
    return FeedLoop([target], Steady(rate) if rate else Unpaced(), report=progress).run(iter(records))


def _fixed_fields(record: Record) -> dict[str, Any]:
    more: dict[str, Any] = {"headers": list(record.headers)} if record.headers else {}
    if record.partition is not None:
        more["partition"] = record.partition
    if record.timestamp is not None:
        more["timestamp"] = record.timestamp
    return more
