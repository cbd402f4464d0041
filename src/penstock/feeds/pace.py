"""When each record is due, as arithmetic: nothing here waits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from penstock.feeds.record import NOTHING, Record

MOST = 1000
_SLICES_PER_SECOND = 20
_TOGETHER_SECONDS = 0.01

Slice = tuple[float, list[Record]]


class Pace(Protocol):
    """Cuts a stream into slices that are sent together, each with the second, from the beginning, it is due at."""

    def slices(self, records: Iterator[Record]) -> Iterator[Slice]: ...


@dataclass(frozen=True)
class Unhurried:
    """As fast as the target takes them."""

    def slices(self, records: Iterator[Record]) -> Iterator[Slice]:
        """Large slices, all due at once."""
        while some := list(islice(records, MOST)):
            yield 0.0, some


@dataclass(frozen=True)
class Live:
    """As they come, one by one; when a stream has nothing to say, an empty slice."""

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
    """So many records a second; with bursts more, now and then.

    burst             ┌──┐        ┌──┐
    rate      ────────┘  └────────┘  └──
    """

    rate: float
    burst: Burst | None = None

    def slices(self, records: Iterator[Record]) -> Iterator[Slice]:
        """Twenty slices a second, or one for each record when there are fewer."""
        size, number = max(1, min(MOST, int(self.rate / _SLICES_PER_SECOND))), 0
        while some := list(islice(records, size)):
            yield self.due_seconds(number), some
            number += len(some)

    def due_seconds(self, number: int) -> float:
        """When the record of that number is due."""
        if self.burst is None:
            return number / self.rate
        calm_seconds = self.burst.every_seconds - self.burst.for_seconds
        calm, quick = calm_seconds * self.rate, self.burst.times * self.rate
        rounds, rest = divmod(number, calm + quick * self.burst.for_seconds)
        began = rounds * self.burst.every_seconds
        return began + (rest / self.rate if rest < calm else calm_seconds + (rest - calm) / quick)


@dataclass(frozen=True)
class OwnPace:
    """As the records' own times say, `speed` times as fast; one that is out of order goes with those before it."""

    speed: float = 1.0

    def slices(self, records: Iterator[Record]) -> Iterator[Slice]:
        """Records of the same hundredth of a second together."""
        first: float | None = None
        due, some = 0.0, list[Record]()
        for record in records:
            moment = record.time
            first = moment if first is None else first
            at = due if moment is None or first is None else (moment - first) / self.speed
            if some and (at > due + _TOGETHER_SECONDS or len(some) == MOST):
                yield due, some
                some = []
            due = max(due, at)
            some.append(record)
        if some:
            yield due, some
