from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from penstock.testing.encode import csv_line, json_text


def test_a_csv_line_has_a_cell_for_every_column_in_their_order():
    row = {"b": 'say "hi", \\', "a": 1, "d": True, "e": "", "f": Decimal("1.50")}

    assert csv_line(row, ("a", "b", "c", "d", "e", "f"), {}) == r'1,"say \"hi\", \\",,true,"",1.50'


def test_a_csv_line_goes_by_sparks_options():
    options = {"sep": ";", "quote": "'", "nullValue": "-"}

    assert csv_line({"a": "x;y", "b": None, "c": "it's"}, ("a", "b", "c"), options) == r"'x;y';-;'it\'s'"


def test_times_and_decimals_are_text_in_json():
    value = {"at": datetime(2024, 1, 1, 10), "price": Decimal("1.50"), "word": "ä"}

    assert json_text(value) == '{"at": "2024-01-01 10:00:00", "price": "1.50", "word": "ä"}'
