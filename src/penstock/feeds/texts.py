"""Sentences: as tweets with tags and ids, and as plain lines for counting words."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.feeds.making import Chance, Shape, chooser, moments, stamper
from penstock.feeds.record import Record

USERS = 20
_TAGS = ("#spark", "#kafka", "#python", "#streaming", "#data", "#coffee")
_WHO = ("the stream", "my pipeline", "a broker", "the new release", "our team", "this notebook", "every window")
_DOES = ("is quick", "waits for late rows", "counts words", "never sleeps", "reads on", "needs a watermark", "is green")
_WHEN = ("today", "again", "at last", "on Monday", "before lunch", "in production", "after the restart")


def tweets(seed: int, shape: Shape = Shape()) -> Iterator[Record]:  # noqa: B008 - frozen
    """Tweets without end, with growing ids; keys are users."""
    chance, stamp = Chance(seed, "tweets"), stamper()
    random, count = chance.random, shape.keys or USERS
    users = [f"user{number + 1}" for number in range(count)]
    keys, user, tag = [name.encode() for name in users], chooser(chance, count, shape.skew), chooser(chance, 6, 1.0)
    said = _sentences()
    for number, moment in enumerate(moments(chance, "2018-05-01 12:00:00", 2, shape), 1):
        at, luck = user(), random()
        text = said[int(random() * len(said))]
        if luck < 0.8:
            text += f" {_TAGS[tag()]}"
        if luck < 0.3:
            text += f" {_TAGS[tag()]}"
        tweet = (
            f'{{"id": "{990_000_000_000 + number}", "created_at": "{stamp(moment)}", '
            f'"user": "{users[at]}", "text": "{text}"}}'
        )
        yield Record(keys[at], tweet.encode(), moment)


def lines(seed: int, shape: Shape = Shape()) -> Iterator[Record]:  # noqa: B008 - frozen
    """Lines of plain text without end; keys number their speakers."""
    chance = Chance(seed, "lines")
    random, count = chance.random, shape.keys or USERS
    speaker, said = chooser(chance, count, shape.skew), [text.encode() for text in _sentences()]
    for moment in moments(chance, "2018-05-01 12:00:00", 2, shape):
        yield Record(b"%d" % (speaker() + 1), said[int(random() * len(said))], moment)


def _sentences() -> list[str]:
    return [f"{who} {does} {when}" for who in _WHO for does in _DOES for when in _WHEN]
