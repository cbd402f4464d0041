"""What the made-up kinds share: keys that may be skewed, and a clock of their own."""

from __future__ import annotations

import time
from bisect import bisect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import accumulate
from random import Random

_TWO_DIGITS = tuple(f"{number:02}" for number in range(60))


@dataclass(frozen=True)
class Shape:
    """What a made-up feed can be told beside its seed; None leaves it to the kind."""

    keys: int | None = None
    """How many brokers, sensors, users ... there are."""
    skew: float = 0.0
    """Zipf's exponent: 0 gives all keys the same share, 1 gives the first of them by far the most."""
    start: float | None = None
    step_seconds: float | None = None
    """How much of the records' own time passes from one to the next, on average."""


class Chance(Random):
    """Random numbers of a seed and a purpose: one purpose more does not change what the others draw."""

    def __init__(self, seed: int, purpose: str) -> None:
        # A text is hashed with SHA-512 by `seed`, so the numbers are the same on every machine.
        super().__init__(f"{purpose} {seed}")


def moments(chance: Random, start: str, step_seconds: float, shape: Shape) -> Iterator[float]:
    """Times without end, in order, as seconds since 1970; steps vary between nothing and twice the mean."""
    moment = utc_seconds(start) if shape.start is None else shape.start
    twice = 2 * (step_seconds if shape.step_seconds is None else shape.step_seconds)
    random = chance.random
    while True:
        moment += random() * twice
        yield moment


def chooser(chance: Random, count: int, skew: float) -> Callable[[], int]:
    """Draws a number below `count`; small ones more often the larger the skew is."""
    random = chance.random
    if not skew:
        return lambda: int(random() * count)
    shares = list(accumulate(1 / number**skew for number in range(1, count + 1)))
    total = shares[-1]
    return lambda: bisect(shares, random() * total, 0, count - 1)


def stamper() -> Callable[[float], str]:
    """Writes seconds since 1970 as '2019-02-05 10:00:00', in UTC; quick because the minute is kept."""
    last, text = -1, ""

    def stamp(moment: float) -> str:
        nonlocal last, text
        minute, second = divmod(int(moment), 60)
        if minute != last:
            last, text = minute, time.strftime("%Y-%m-%d %H:%M:", time.gmtime(minute * 60))
        return text + _TWO_DIGITS[second]

    return stamp


def utc_seconds(text: str) -> float:
    """The second since 1970 of a time like '2019-02-05 10:00:00'; UTC unless it says otherwise."""
    found = datetime.fromisoformat(text)
    return (found if found.tzinfo else found.replace(tzinfo=timezone.utc)).timestamp()
