"""Synthetic records: the same for the same seed, in event order, with as many keys as requested."""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime
from itertools import islice

import pytest

from penstock.feeds import FEEDS, TEXTS, Shape

NOW = datetime.fromisoformat("2025-01-01T00:00:00+00:00").timestamp()


@pytest.mark.parametrize("kind", sorted(FEEDS))
def test_the_same_seed_gives_the_same_records_and_another_gives_others(kind):
    first, second, other = (list(islice(FEEDS[kind](seed), 500)) for seed in (7, 7, 8))

    assert first == second
    assert [record.value for record in first] != [record.value for record in other]


@pytest.mark.parametrize("kind", sorted(FEEDS))
def test_records_come_in_the_order_of_their_times_and_start_at_the_given_time(kind):
    usual = [record.time for record in islice(FEEDS[kind](7), 300)]
    shifted = [record.time for record in islice(FEEDS[kind](7, Shape(start=NOW, step_seconds=0.5)), 300)]

    assert usual == sorted(usual)
    assert shifted == sorted(shifted)
    # Each step is at most twice the mean; clicks wait for the impressions before them.
    assert NOW <= shifted[0] <= NOW + (1200 if kind == "clicks" else 1)


@pytest.mark.parametrize("kind", sorted(set(FEEDS) - set(TEXTS)))
def test_values_are_json_objects_with_the_time_of_the_record_in_them(kind):
    for record in islice(FEEDS[kind](7), 200):
        row = json.loads(record.value)
        found = next(row[name] for name in ("CreatedTime", "created_time", "created_at", "time", "Time") if name in row)
        seconds = found / 1000 if isinstance(found, int) else datetime.fromisoformat(f"{found}+00:00").timestamp()
        assert 0 <= record.time - seconds < 1


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        ("trades", "BrokerCode"),
        ("sensors", "SensorID"),
        ("invoices", "StoreID"),
        ("impressions", "Campaigner"),
        ("logins", "login_id"),
        ("clickstream", "site"),
        ("weblogs", "UserID"),
        ("tweets", "user"),
    ],
)
def test_keys_are_as_many_as_asked_for_and_skew_gives_a_few_of_them_most(kind, column):
    def count_keys(shape: Shape) -> Counter[str]:
        return Counter(json.loads(record.value)[column] for record in islice(FEEDS[kind](7, shape), 5000))

    even, skewed = count_keys(Shape(keys=100)), count_keys(Shape(keys=100, skew=1.2))

    assert len(even) == 100
    assert max(even.values()) < 100
    assert len(skewed) <= 100
    assert skewed.most_common(1)[0][1] > 1000


def test_clicks_are_on_the_impressions_of_the_same_seed_and_come_after_them():
    both = list(islice(FEEDS["ads"](3), 2000))
    shown, clicked = ([record for record in both if record.stream == number] for number in (0, 1))

    assert [record.value for record in islice(FEEDS["impressions"](3), len(shown))] == [r.value for r in shown]
    assert [record.value for record in islice(FEEDS["clicks"](3), len(clicked))] == [r.value for r in clicked]
    times = {record.key: record.time for record in shown}
    waits = [record.time - times[record.key] for record in clicked]
    assert min(waits) >= 0
    assert 0 < sum(wait > 900 for wait in waits) < len(waits) / 10, "some come too late to count"
    assert 0.1 < len(clicked) / len(shown) < 0.3


def test_line_items_of_an_invoice_add_up():
    for record in islice(FEEDS["invoices"](7), 200):
        invoice = json.loads(record.value)
        for item in invoice["InvoiceLineItems"]:
            assert item["TotalValue"] == item["ItemPrice"] * item["ItemQty"]
        assert ("DeliveryAddress" in invoice) == (invoice["DeliveryType"] == "HOME-DELIVERY")
