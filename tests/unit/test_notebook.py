"""What a notebook shows, without Spark."""

from __future__ import annotations

import pytest

from penstock.errors import CallError
from penstock.notebook import View, _told
from penstock.preview.query import Preview, RowBatch

COLUMNS = [("body", "string"), ("enqueuedTime", "timestamp"), ("n", "int")]


def view(**how) -> View:
    made = View(**how)
    made.begin(Preview(COLUMNS, "append", iter(()), lambda: ""))
    return made


def test_a_record_that_holds_html_stays_text():
    seen = view()
    seen.take(RowBatch(0, [["<script>alert(1)</script>", "2024-01-01 10:00:00", 1]], False))

    assert "<script>" not in seen.html()
    assert "&lt;script&gt;" in seen.html()
    bars = view(chart="bar", x="body")
    bars.take(RowBatch(0, [["'><script>", None, 1]], False))
    assert "<script>" not in bars.html()


def test_bars_count_rows_by_time_or_sum_a_column():
    rows = [["a", "10:00", 5], ["b", "10:00", 7], ["c", "10:01", 9]]
    counted, taken = view(chart="bar"), view(chart="line", y="n")
    for each in (counted, taken):
        each.take(RowBatch(0, rows, False))

    assert counted.values() == {"10:00": 2, "10:01": 1}
    assert taken.values() == {"10:00": 12, "10:01": 9}
    assert counted.html().count("<rect") == 2
    assert "<polyline" in taken.html()


def test_an_aggregate_takes_the_place_of_the_one_before():
    seen = view()
    seen.take(RowBatch(0, [["a", None, 1]], True))
    seen.take(RowBatch(1, [["a", None, 2]], True))

    assert seen.seen.rows == [["a", None, 2]]
    assert "<p>1 rows in the result; live" in seen.html()


def test_a_column_or_a_word_that_is_not_there_is_said():
    with pytest.raises(CallError, match="there is no column 'time' to draw; the stream has body, enqueuedTime, n"):
        view(x="time")
    assert _told("bar x=a y=b rows=5 seconds=9") == {"chart": "bar", "x": "a", "y": "b", "rows": 5, "seconds": 9}
    with pytest.raises(CallError, match="%%sql does not know 'pie'"):
        _told("pie")
