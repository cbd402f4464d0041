"""Logins of users of a site."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.feeds.making import Chance, Shape, chooser, moments, stamper
from penstock.feeds.record import Record

#: The four that examples/logins puts into its table, and two that nobody knows.
KNOWN = ("100001", "100009", "100087", "100109", "200001", "200002")


def logins(seed: int, shape: Shape = Shape()) -> Iterator[Record]:  # noqa: B008 - frozen
    """Logins without end, some of users that are in no table; keys are users."""
    chance, stamp = Chance(seed, "logins"), stamper()
    count = shape.keys or len(KNOWN)
    users = [KNOWN[number] if number < len(KNOWN) else f"{300_000 + number}" for number in range(count)]
    keys, user = [name.encode() for name in users], chooser(chance, count, shape.skew)
    for moment in moments(chance, "2020-09-09 10:18:00", 4, shape):
        at = user()
        text = f'{{"login_id": "{users[at]}", "created_time": "{stamp(moment)}"}}'
        yield Record(keys[at], text.encode(), moment)
