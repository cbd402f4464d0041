"""Open windows and the state limit, from progress reports as Spark writes them."""

from __future__ import annotations

from penstock.watch.emitter import OpenWindows, StateLimit

MINUTE = 60_000_000


def report(watermark: str, late_facts: dict | None = None, state_bytes: int = 0) -> dict:
    return {
        "name": "board",
        "batchId": 1,
        "eventTime": {"watermark": watermark},
        "observedMetrics": {"late_rows:1": late_facts} if late_facts else {},
        "stateOperators": [{"operatorName": "stateStoreSave", "numRowsTotal": 3, "memoryUsedBytes": state_bytes}],
    }


def test_a_window_is_the_oldest_until_the_watermark_passes_its_end():
    windows = OpenWindows()
    # The first and the third window after the watermark: they end at minutes 5 and 15.
    opened = {"late": 0, "open": 0b101, "oldest": 5 * MINUTE, "slide": 5 * MINUTE}

    assert windows.oldest(report("1970-01-01T00:00:00.000Z", opened)) == {"1": "1970-01-01 00:05:00"}
    assert windows.oldest(report("1970-01-01T00:05:00.000Z")) == {"1": "1970-01-01 00:15:00"}
    assert windows.oldest(report("1970-01-01T00:15:00.000Z")) == {}


def test_the_limit_is_reported_once_each_time_it_is_exceeded():
    limit = StateLimit(1000)

    events = [limit.check(report("", state_bytes=size)) for size in (900, 1001, 2000, 900, 1500)]

    assert events == [
        None,
        {"sink": "board", "rows": 3, "bytes": 1001, "limit": 1000},
        None,
        None,
        {"sink": "board", "rows": 3, "bytes": 1500, "limit": 1000},
    ]
