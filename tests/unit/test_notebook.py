"""What a notebook shows, without Spark."""

from __future__ import annotations

import pytest

from penstock.errors import CallError
from penstock.notebook import View, _parse_line
from penstock.preview.query import Preview, RowBatch

COLUMNS = [("body", "string"), ("enqueuedTime", "timestamp"), ("n", "int")]


def view(**how) -> View:
    made = View(**how)
    made.begin(Preview(COLUMNS, "append", iter(()), lambda: ""))
    return made


def test_html_in_a_record_is_escaped():
    seen = view()
    seen.add(RowBatch(0, [["<script>alert(1)</script>", "2024-01-01 10:00:00", 1]], False))

    assert "<script>" not in seen.html()
    assert "&lt;script&gt;" in seen.html()
    bars = view(chart="bar", x="body")
    bars.add(RowBatch(0, [["'><script>", None, 1]], False))
    assert "<script>" not in bars.html()


def test_bars_count_rows_by_time_or_sum_a_column():
    rows = [["a", "10:00", 5], ["b", "10:00", 7], ["c", "10:01", 9]]
    counted, taken = view(chart="bar"), view(chart="line", y="n")
    for each in (counted, taken):
        each.add(RowBatch(0, rows, False))

    assert counted.values() == {"10:00": 2, "10:01": 1}
    assert taken.values() == {"10:00": 12, "10:01": 9}
    assert counted.html().count("<rect") == 2
    assert "<polyline" in taken.html()


def test_a_newer_result_replaces_the_previous_one():
    seen = view()
    seen.add(RowBatch(0, [["a", None, 1]], True))
    seen.add(RowBatch(1, [["a", None, 2]], True))

    assert seen.displayed.rows == [["a", None, 2]]
    assert "<p>1 rows in the result; live" in seen.html()


def test_an_unknown_column_or_word_is_an_error():
    with pytest.raises(CallError, match="unknown column 'time'; the stream has body, enqueuedTime, n"):
        view(x="time")
    assert _parse_line("bar x=a y=b rows=5 seconds=9") == {"chart": "bar", "x": "a", "y": "b", "rows": 5, "seconds": 9}
    with pytest.raises(CallError, match="%%sql does not know 'pie'"):
        _parse_line("pie")
