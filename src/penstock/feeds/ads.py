"""Impressions of advertisements, and the clicks on them: two streams that belong together.

ads          i1   i2   c1   i3   i4   c3   ...      both, in the order in which they happen
impressions  i1   i2        i3   i4        ...      the same seed gives the same ones ...
clicks                 c1             c3   ...      ... and these are the clicks on them
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

from penstock.feeds.making import Chance, Shape, chooser, moments, stamper
from penstock.feeds.record import Record

CAMPAIGNERS = ("ABC Ltd", "XYZ Ltd", "Harbour Tea", "Nord Bikes", "Lumen & Co")
IMPRESSIONS, CLICKS = 0, 1
_CLICKED = 0.2
_USUAL_SECONDS = 240.0


def ads(seed: int, shape: Shape = Shape()) -> Iterator[Record]:  # noqa: B008 - frozen
    """Both streams: one impression in five is clicked, most within minutes, some after a quarter of an hour.

    Keys are the campaigners; a record of Kafka has the impression's id as its key.
    """
    chance, stamp = Chance(seed, "ads"), stamper()
    random, count = chance.random, shape.keys or len(CAMPAIGNERS)
    names = [CAMPAIGNERS[n] if n < len(CAMPAIGNERS) else f"Campaigner {n + 1}" for n in range(count)]
    campaigner = chooser(chance, count, shape.skew)
    coming: list[tuple[float, str]] = []
    for number, moment in enumerate(moments(chance, "2020-09-09 10:00:00", 3, shape), 1):
        while coming and coming[0][0] <= moment:
            clicked, shown = heappop(coming)
            text = f'{{"ImpressionID": "{shown}", "CreatedTime": "{stamp(clicked)}"}}'
            yield Record(shown.encode(), text.encode(), clicked, CLICKS)
        shown = f"{100_000_000 + number}"
        text = f'{{"ImpressionID": "{shown}", "CreatedTime": "{stamp(moment)}", "Campaigner": "{names[campaigner()]}"}}'
        yield Record(shown.encode(), text.encode(), moment, IMPRESSIONS)
        if random() < _CLICKED:
            heappush(coming, (moment + chance.expovariate(1 / _USUAL_SECONDS), shown))


def impressions(seed: int, shape: Shape = Shape()) -> Iterator[Record]:  # noqa: B008 - frozen
    """The impressions alone."""
    return (record for record in ads(seed, shape) if record.stream == IMPRESSIONS)


def clicks(seed: int, shape: Shape = Shape()) -> Iterator[Record]:  # noqa: B008 - frozen
    """The clicks alone, on the impressions of the same seed and shape."""
    return (record._replace(stream=0) for record in ads(seed, shape) if record.stream == CLICKS)
