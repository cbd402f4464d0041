"""What visitors do on sites."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.feeds.making import Chance, Shape, chooser, moments, stamper
from penstock.feeds.record import Record

SITES = ("facebook.com", "youtube.com", "linkedin.com", "wikipedia.org", "example.com")


def clickstream(seed: int, shape: Shape = Shape()) -> Iterator[Record]:  # noqa: B008 - frozen
    """Views, clicks and purchases without end, many, some and few; keys are sites."""
    chance, stamp = Chance(seed, "clickstream"), stamper()
    random, count = chance.random, shape.keys or len(SITES)
    sites = [SITES[number] if number < len(SITES) else f"site{number + 1}.example" for number in range(count)]
    keys, site = [name.encode() for name in sites], chooser(chance, count, shape.skew)
    for moment in moments(chance, "2021-03-01 09:00:00", 1, shape):
        at, luck = site(), random()
        action = "viewed" if luck < 0.7 else "clicked" if luck < 0.96 else "bought"
        text = f'{{"site": "{sites[at]}", "action": "{action}", "time": "{stamp(moment)}"}}'
        yield Record(keys[at], text.encode(), moment)
