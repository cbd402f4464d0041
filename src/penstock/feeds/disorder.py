"""Injected disorder: records that arrive late, out of order, twice or corrupted.

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

from penstock.feeds.generators import SeededRandom
from penstock.feeds.records import Record

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
