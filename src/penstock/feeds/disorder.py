"""What goes wrong on the way: records that come late, in another order, twice or damaged.

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

from penstock.feeds.generators import Chance
from penstock.feeds.record import Record

_LATER = 100


@dataclass(frozen=True)
class Disorder:
    """How much of each; shares are between 0 and 1."""

    late: float = 0.0
    late_by_seconds: float = 3600.0
    shuffle: int = 0
    duplicate: float = 0.0
    corrupt: float = 0.0


@dataclass
class Damage:
    """How often it was done: what a test of a pipeline can hold against its counters."""

    late: int = 0
    duplicate: int = 0
    corrupt: int = 0

    def __str__(self) -> str:
        parts = {"late": self.late, "sent twice": self.duplicate, "corrupt": self.corrupt}
        return ", ".join(f"{count:,} {what}" for what, count in parts.items() if count)


@dataclass
class Disturbed:
    """Records with disorder in them; the same seed makes the same disorder."""

    disorder: Disorder
    seed: int
    damage: Damage = field(default_factory=Damage)

    def of(self, records: Iterator[Record]) -> Iterator[Record]:
        """The records as they arrive in a world like that."""
        if self.disorder.late:
            records = self._late(records)
        if self.disorder.shuffle > 1:
            records = self._shuffled(records)
        if self.disorder.duplicate:
            records = self._duplicated(records)
        return self._corrupted(records) if self.disorder.corrupt else records

    def _late(self, records: Iterator[Record]) -> Iterator[Record]:
        chance, held, number = Chance(self.seed, "late"), list[tuple[float, int, Record]](), 0
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

    def _shuffled(self, records: Iterator[Record]) -> Iterator[Record]:
        chance = Chance(self.seed, "shuffle")
        while group := list(islice(records, self.disorder.shuffle)):
            chance.shuffle(group)
            yield from group

    def _duplicated(self, records: Iterator[Record]) -> Iterator[Record]:
        chance, again = Chance(self.seed, "duplicate"), deque[tuple[int, Record]]()
        for number, record in enumerate(records):
            yield record
            while again and again[0][0] <= number:
                yield again.popleft()[1]
            if chance.random() < self.disorder.duplicate:
                self.damage.duplicate += 1
                again.append((number + int(chance.random() * _LATER), record))
        yield from (record for _, record in again)

    def _corrupted(self, records: Iterator[Record]) -> Iterator[Record]:
        chance = Chance(self.seed, "corrupt")
        for record in records:
            if record.value and chance.random() < self.disorder.corrupt:
                self.damage.corrupt += 1
                yield record._replace(value=_broken(record.value, chance))
            else:
                yield record


def _broken(value: bytes, chance: Chance) -> bytes:
    # Cut anywhere before its last brace, an object is no JSON any more; a flipped byte inside a text still would be.
    if chance.random() < 0.5:
        return value[: 1 + int(chance.random() * (len(value.rstrip()) - 1))]
    return b"<noise %08x>" % chance.getrandbits(32)
