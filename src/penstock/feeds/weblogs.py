"""Visits to the pages of a shop, with what is known about the visitor."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.feeds.making import Chance, Shape, chooser, moments, stamper
from penstock.feeds.record import Record

VISITORS = 50
PAGES = ("/", "/sale", "/garden", "/kitchen", "/audio", "/bags", "/basket")


def weblogs(seed: int, shape: Shape = Shape()) -> Iterator[Record]:  # noqa: B008 - frozen
    """Visits without end: a visitor keeps the same age, and visits and purchases grow; keys are visitors."""
    chance, stamp = Chance(seed, "weblogs"), stamper()
    random, count = chance.random, shape.keys or VISITORS
    users = [f"user{number + 1}" for number in range(count)]
    keys, user = [name.encode() for name in users], chooser(chance, count, shape.skew)
    ages = [18 + int(random() * 52) for _ in users]
    visits, bought = [int(random() * 30) for _ in users], [int(random() * 8) for _ in users]
    for moment in moments(chance, "2024-05-01 12:00:00", 2, shape):
        at = user()
        # Past a month's worth the counts begin again, as those of a month do.
        visits[at] = visits[at] % 40 + 1
        bought[at] = (bought[at] + (random() < 0.1)) % 12
        text = (
            f'{{"UserID": "{users[at]}", "Time": "{stamp(moment)}", "Page": "{PAGES[int(random() * len(PAGES))]}", '
            f'"Age": {ages[at]}, "Visits": {visits[at]}, "Bought": {bought[at]}}}'
        )
        yield Record(keys[at], text.encode(), moment)
