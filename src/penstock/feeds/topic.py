"""Records a topic into a file, with a separate consumer group that commits nothing."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from heapq import merge
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from penstock.errors import CallError, PenstockError, UnreachableError
from penstock.feeds.loop import Clock
from penstock.feeds.recording import Heading, format_heading, format_record
from penstock.feeds.records import Record

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

_MAX_MESSAGES = 1000
_POLL_SECONDS = 0.2
_ANSWER_SECONDS = 30.0


@dataclass
class Recorder:
    """Reads one topic, each partition into a temporary file, and merges them by time at the end.

    Kafka orders records within a partition only; merging by timestamp lets a replay keep the pace of all of them.
    """

    settings: Mapping[str, Any]
    topic: str
    path: Path
    start: Literal["earliest", "latest"] = "earliest"
    follow: bool = False
    count: int | None = None
    for_seconds: float | None = None
    report: Callable[[int], None] = lambda _: None
    clock: Clock = field(default_factory=Clock)
    recorded: int = 0

    def run(self) -> int:
        """Record, and return the number of records. The file appears when it is complete."""
        parts = self.path.with_name(f".{self.path.name}.{uuid.uuid4().hex[:8]}.parts")
        try:
            parts.mkdir(parents=True)
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise CallError(f"{self.path} cannot be written: {why}; give another file") from error
        try:
            numbers = self._record(parts)
            self._merge(parts, numbers)
        except OSError as error:
            raise PenstockError(f"writing {self.path} failed: {(error.strerror or str(error)).lower()}") from error
        finally:
            shutil.rmtree(parts, ignore_errors=True)
        return self.recorded

    def _record(self, parts: Path) -> list[int]:
        from confluent_kafka import Consumer

        own = {"group.id": f"penstock-record-{uuid.uuid4().hex}", "enable.auto.commit": False, "log_level": 0}
        consumer = Consumer({**self.settings, **own, "enable.partition.eof": True})
        try:
            numbers = self._assign(consumer)
            with ExitStack() as files:
                open_parts = {n: files.enter_context((parts / str(n)).open("wb")) for n in numbers}
                # Ctrl-C ends a recording with `follow`: what was read is kept.
                with suppress(KeyboardInterrupt):
                    self._consume(consumer, open_parts)
        finally:
            consumer.close()
        return numbers

    def _assign(self, consumer: Consumer) -> list[int]:
        from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, KafkaException, TopicPartition

        try:
            found = consumer.list_topics(self.topic, timeout=_ANSWER_SECONDS).topics[self.topic]
        except KafkaException as error:
            raise UnreachableError(f"Kafka does not answer about the partitions of {self.topic!r}: {error}") from error
        numbers = sorted(found.partitions)
        where = OFFSET_BEGINNING if self.start == "earliest" else OFFSET_END
        consumer.assign([TopicPartition(self.topic, number, where) for number in numbers])
        return numbers

    def _consume(self, consumer: Consumer, parts: Mapping[int, BinaryIO]) -> None:
        ends = None if self.follow else self._ends(consumer, parts)
        began, waiting = self.clock.now(), set(parts)
        if ends is not None:
            waiting = {number for number, (low, high) in ends.items() if high > low}
        while waiting and (self.count is None or self.recorded < self.count):
            if self.for_seconds is not None and self.clock.now() - began >= self.for_seconds:
                break
            most = _MAX_MESSAGES if self.count is None else min(_MAX_MESSAGES, self.count - self.recorded)
            for message in consumer.consume(most, timeout=_POLL_SECONDS):
                self._write(message, parts, ends, waiting)
            self.report(self.recorded)

    def _ends(self, consumer: Consumer, parts: Mapping[int, BinaryIO]) -> dict[int, tuple[int, int]]:
        from confluent_kafka import KafkaException, TopicPartition

        try:
            return {
                number: consumer.get_watermark_offsets(TopicPartition(self.topic, number), timeout=_ANSWER_SECONDS)
                for number in parts
            }
        except KafkaException as error:
            raise UnreachableError(
                f"Kafka does not answer about the end offsets of topic {self.topic!r}: {error}"
            ) from error

    def _write(
        self,
        message: Message,
        parts: Mapping[int, BinaryIO],
        ends: Mapping[int, tuple[int, int]] | None,
        waiting: set[int],
    ) -> None:
        from confluent_kafka import KafkaError

        number, offset, error = message.partition(), message.offset() or 0, message.error()
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                if ends is not None:
                    waiting.discard(number)
                return
            raise UnreachableError(f"Kafka, topic {self.topic!r}: {error.str()}")
        if number not in waiting:
            return
        parts[number].write(format_record(to_record(message), offset))
        self.recorded += 1
        if ends is not None and offset >= ends[number][1] - 1:
            waiting.discard(number)

    def _merge(self, parts: Path, numbers: list[int]) -> None:
        hidden = parts / "whole"
        with ExitStack() as files, hidden.open("wb") as whole:
            whole.write(format_heading(Heading(self.topic, len(numbers))))
            timed = [_pair_with_time(files.enter_context((parts / str(number)).open("rb"))) for number in numbers]
            whole.writelines(text for _, text in merge(*timed, key=lambda pair: pair[0]))
        hidden.replace(self.path)


def to_record(message: Message) -> Record:
    """Convert a message of the Kafka client, with everything a producer can set."""
    from confluent_kafka import TIMESTAMP_NOT_AVAILABLE

    kind, timestamp = message.timestamp()
    headers: Any = message.headers() or ()
    return Record(
        message.key(),
        message.value(),
        headers=tuple(headers),
        partition=message.partition(),
        timestamp=None if kind == TIMESTAMP_NOT_AVAILABLE else timestamp,
    )


def _pair_with_time(lines: BinaryIO) -> Iterator[tuple[float, bytes]]:
    # The newest time so far: timestamps within a partition may decrease, and its order must stay.
    newest = 0.0
    for text in lines:
        newest = max(newest, json.loads(text).get("timestamp") or 0)
        yield newest, text
