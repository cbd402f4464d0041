"""Trades of a small stock exchange."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from datetime import datetime, timedelta

from penstock.feeds.record import Record

BROKERS = ("ABX", "BNP", "CDL", "DKR", "EVN", "FXT", "GLM", "HSN")
_OPENING = datetime(2019, 2, 5, 10, 0)


def trades(seed: int) -> Iterator[Record]:
    """Trades without end, in event order: about ten a minute of the exchange's time, from 10:00 on."""
    chance = random.Random(seed)  # noqa: S311 - made-up data
    moment = _OPENING
    while True:
        moment += timedelta(seconds=chance.randint(1, 11))
        broker = chance.choice(BROKERS)
        trade = {
            "CreatedTime": moment.strftime("%Y-%m-%d %H:%M:%S"),
            "Type": "BUY" if chance.random() < 0.55 else "SELL",
            "Amount": chance.randint(1, 40) * 25,
            "BrokerCode": broker,
        }
        yield Record(broker.encode(), json.dumps(trade).encode())
