from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest

from penstock.testing.difference import Map, format_value, same

MOMENT = datetime(2019, 2, 5, 10, 0, tzinfo=ZoneInfo("UTC"))
VIENNA = MOMENT.astimezone(ZoneInfo("Europe/Vienna"))


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (None, None),
        (1, 1),
        (1.0, 1),
        (1, 1.0),
        (0.3, 0.1 + 0.2),
        (float("nan"), float("nan")),
        (0.1, Decimal("0.10")),
        ("12.30", Decimal("12.3")),
        (5, Decimal("5.00")),
        ("2019-02-05 10:00:00", MOMENT),
        ("2019-02-05T10:00:00Z", MOMENT),
        ("2019-02-05 11:00:00+01:00", MOMENT),
        ("2019-02-05 11:00:00", VIENNA),
        (datetime(2019, 2, 5, 10, tzinfo=timezone.utc), VIENNA),
        ("2019-02-05 10:00", datetime(2019, 2, 5, 10)),
        ("2019-02-05", date(2019, 2, 5)),
        (date(2019, 2, 5), date(2019, 2, 5)),
        ("ä", "ä".encode()),
        ({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}, "d": 3}),
        ([1, {"x": None}], [1, {"x": None, "y": 2}]),
        ({"1": 2}, Map({"1": 2})),
        (True, True),
    ],
)
def test_values_that_are_the_same(wanted, found):
    assert same(wanted, found)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (None, 0),
        (0, None),
        (1, True),
        (True, 1),
        ("1", 1),
        ("x", Decimal(1)),
        (1.1, 1),
        (0.1, Decimal("0.1000000001")),
        ("2019-02-05 10:00:01", MOMENT),
        ("10 o'clock", MOMENT),
        (5, MOMENT),
        ("2019-02-05 10:00:00", date(2019, 2, 5)),
        (MOMENT, datetime(2019, 2, 5, 10)),
        ({"a": 1}, Map({"a": 1, "b": 2})),
        ({"z": None}, {"a": 1}),
        ([1], [1, 2]),
        (1, [1]),
        ("a", {"a": 1}),
        ("a", "b"),
    ],
)
def test_values_that_are_not_the_same(wanted, found):
    assert not same(wanted, found)


def test_values_are_shown_as_yaml_has_them():
    row = {"t": VIENNA, "n": None, "b": False, "d": Decimal("1.50"), "l": [1, "x"], "raw": b"\xffa"}

    assert format_value(row) == "{t: 2019-02-05 11:00:00, n: null, b: false, d: 1.50, l: [1, x], raw: \\xffa}"
