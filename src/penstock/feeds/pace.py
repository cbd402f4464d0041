"""When each record is due, as arithmetic: nothing here sleeps; and records that arrive late, twice or corrupted.

in order     a b c d e f g h
late         a b d e f g c h      c was held back until later records had been sent
shuffled     b d a c f e h g      in groups of N (here 4): none is more than N places away
duplicated   a b c d b e f g h
corrupted    a b c d <d e f g h   the value cut off, or replaced by noise
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import islice
from typing import Protocol

from penstock.feeds.generators import SeededRandom
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


_MAX_RECORDS_LATER = 100


@dataclass(frozen=True)
class Disorder:
    """How much of each kind of disorder; shares are between 0 and 1."""

    late: float = 0.0
    late_by_seconds: float = 3600.0
    shuffle: int = 0
    duplicate: float = 0.0
    corrupt: float = 0.0


@dataclass
class Damage:
    """How many records were affected, to compare with a pipeline's counters."""

    late: int = 0
    duplicate: int = 0
    corrupt: int = 0

    def __str__(self) -> str:
        parts = {"late": self.late, "sent twice": self.duplicate, "corrupt": self.corrupt}
        return ", ".join(f"{count:,} {what}" for what, count in parts.items() if count)


@dataclass
class DisorderInjector:
    """Applies disorder to a stream; the same seed gives the same disorder."""

    disorder: Disorder
    seed: int
    damage: Damage = field(default_factory=Damage)

    def apply(self, records: Iterator[Record]) -> Iterator[Record]:
        """The records with the disorder applied."""
        if self.disorder.late:
            records = self._delay(records)
        if self.disorder.shuffle > 1:
            records = self._shuffle(records)
        if self.disorder.duplicate:
            records = self._duplicate(records)
        return self._corrupt(records) if self.disorder.corrupt else records

    def _delay(self, records: Iterator[Record]) -> Iterator[Record]:
        chance, held, number = SeededRandom(self.seed, "late"), list[tuple[float, int, Record]](), 0
        for record in records:
            moment = record.time or 0.0
            while held and held[0][0] <= moment:
                yield heappop(held)[2]
            if chance.random() < self.disorder.late:
                self.damage.late += 1
                number += 1
                heappush(held, (moment + chance.random() * self.disorder.late_by_seconds, number, record))
            else:
                yield record
        while held:
            yield heappop(held)[2]

    def _shuffle(self, records: Iterator[Record]) -> Iterator[Record]:
        chance = SeededRandom(self.seed, "shuffle")
        while group := list(islice(records, self.disorder.shuffle)):
            chance.shuffle(group)
            yield from group

    def _duplicate(self, records: Iterator[Record]) -> Iterator[Record]:
        chance, again = SeededRandom(self.seed, "duplicate"), deque[tuple[int, Record]]()
        for number, record in enumerate(records):
            yield record
            while again and again[0][0] <= number:
                yield again.popleft()[1]
            if chance.random() < self.disorder.duplicate:
                self.damage.duplicate += 1
                again.append((number + int(chance.random() * _MAX_RECORDS_LATER), record))
        yield from (record for _, record in again)

    def _corrupt(self, records: Iterator[Record]) -> Iterator[Record]:
        chance = SeededRandom(self.seed, "corrupt")
        for record in records:
            if record.value and chance.random() < self.disorder.corrupt:
                self.damage.corrupt += 1
                yield record._replace(value=_corrupt_value(record.value, chance))
            else:
                yield record


def _corrupt_value(value: bytes, chance: SeededRandom) -> bytes:
    # An object cut off before its last brace is never valid JSON; one with a flipped byte in a string may be.
    if chance.random() < 0.5:
        return value[: 1 + int(chance.random() * (len(value.rstrip()) - 1))]
    return b"<noise %08x>" % chance.getrandbits(32)
