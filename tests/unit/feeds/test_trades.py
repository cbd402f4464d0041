from __future__ import annotations

import json
from itertools import islice

from penstock.feeds import FEEDS


def test_the_same_seed_gives_the_same_trades_in_event_order():
    first, second = (list(islice(FEEDS["trades"](7), 500)) for _ in range(2))
    other = list(islice(FEEDS["trades"](8), 500))

    assert first == second
    assert first != other
    times = [json.loads(record.value)["CreatedTime"] for record in first]
    assert times == sorted(times)
    assert {json.loads(record.value)["Type"] for record in first} == {"BUY", "SELL"}
