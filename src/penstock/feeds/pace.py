"""When each record is due, as arithmetic: nothing here sleeps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from penstock.feeds.records import NOTHING, Record

MAX_RECORDS = 1000
_SLICES_PER_SECOND = 20
_TOGETHER_SECONDS = 0.01

Slice = tuple[float, list[Record]]


class Pace(Protocol):
    """Cuts a stream into slices, each with the second, counted from the start, at which it is due."""

    def slices(self, records: Iterator[Record]) -> Iterator[Slice]: ...


@dataclass(frozen=True)
class Unpaced:
    """As fast as the target accepts."""

    def slices(self, records: Iterator[Record]) -> Iterator[Slice]:
        """Large slices, all due at once."""
        while some := list(islice(records, MAX_RECORDS)):
            yield 0.0, some


@dataclass(frozen=True)
class Live:
    """As records arrive, one by one; an empty slice while the stream is idle."""

    def slices(self, records: Iterator[Record]) -> Iterator[Slice]:
        """A slice for each record."""
        for record in records:
            yield 0.0, [] if record is NOTHING else [record]


@dataclass(frozen=True)
class Burst:
    """`times` the rate for `for_seconds` at the end of every `every_seconds`."""

    times: float
    for_seconds: float = 1.0
    every_seconds: float = 10.0


@dataclass(frozen=True)
class Steady:
    """A constant rate in records per second, optionally with periodic bursts.

    burst             ┌──┐        ┌──┐
    rate      ────────┘  └────────┘  └──
    """

    rate: float
    burst: Burst | None = None

    def slices(self, records: Iterator[Record]) -> Iterator[Slice]:
        """Twenty slices a second, or one per record at lower rates."""
        size, number = max(1, min(MAX_RECORDS, int(self.rate / _SLICES_PER_SECOND))), 0
        while some := list(islice(records, size)):
            yield self.due_seconds(number), some
            number += len(some)

    def due_seconds(self, number: int) -> float:
        """When the record with that number is due."""
        if self.burst is None:
            return number / self.rate
        base_seconds = self.burst.every_seconds - self.burst.for_seconds
        base_records, burst_rate = base_seconds * self.rate, self.burst.times * self.rate
        rounds, rest = divmod(number, base_records + burst_rate * self.burst.for_seconds)
        round_start = rounds * self.burst.every_seconds
        return round_start + (
            rest / self.rate if rest < base_records else base_seconds + (rest - base_records) / burst_rate
        )


@dataclass(frozen=True)
class RecordedPace:
    """At the pace of the records' own times, `speed` times as fast; one out of order goes with its predecessor."""

    speed: float = 1.0

    def slices(self, records: Iterator[Record]) -> Iterator[Slice]:
        """Records within a hundredth of a second together."""
        first: float | None = None
        due, some = 0.0, list[Record]()
        for record in records:
            moment = record.time
            first = moment if first is None else first
            at = due if moment is None or first is None else (moment - first) / self.speed
            if some and (at > due + _TOGETHER_SECONDS or len(some) == MAX_RECORDS):
                yield due, some
                some = []
            due = max(due, at)
            some.append(record)
        if some:
            yield due, some
