"""Trades of a small stock exchange."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.feeds.making import Chance, Shape, chooser, moments, stamper
from penstock.feeds.record import Record

BROKERS = ("ABX", "BNP", "CDL", "DKR", "EVN", "FXT", "GLM", "HSN")


def trades(seed: int, shape: Shape = Shape()) -> Iterator[Record]:  # noqa: B008 - frozen
    """Trades without end, in event order: ten a minute of the exchange's time, from 10:00 on. Keys are brokers."""
    chance, stamp = Chance(seed, "trades"), stamper()
    random, count = chance.random, shape.keys or len(BROKERS)
    brokers = [BROKERS[number] if number < len(BROKERS) else f"B{number + 1:05}" for number in range(count)]
    keys, broker = [name.encode() for name in brokers], chooser(chance, count, shape.skew)
    for moment in moments(chance, "2019-02-05 10:00:00", 6, shape):
        at = broker()
        side = "BUY" if random() < 0.55 else "SELL"
        text = (
            f'{{"CreatedTime": "{stamp(moment)}", "Type": "{side}", '
            f'"Amount": {(int(random() * 40) + 1) * 25}, "BrokerCode": "{brokers[at]}"}}'
        )
        yield Record(keys[at], text.encode(), moment)
