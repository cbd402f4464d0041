from __future__ import annotations

import pytest

from penstock.watch.snapshot import snapshot
from penstock.watch.terminal import Total, line, summary, totals_table

PROGRESS = {
    "name": "board",
    "batchId": 4,
    "timestamp": "2024-01-01T10:00:00.000Z",
    "durationMs": {"triggerExecution": 500},
    "eventTime": {"watermark": "2019-02-05T10:05:00.000Z"},
    "stateOperators": [{"numRowsTotal": 7}, {"numRowsTotal": 3}],
    "sources": [{"numInputRows": 900}, {"numInputRows": 100}],
    "sink": {"numOutputRows": 12},
    "observedMetrics": {"bad_records:trades": {"bad": 2}, "mine": {"bad": 99}},
}


def test_a_report_of_spark_becomes_the_facts_of_a_batch():
    seen = snapshot(PROGRESS)

    assert (seen.query, seen.batch, seen.rows_in, seen.rows_out, seen.state_rows) == ("board", 4, 1000, 12, 10)
    assert (seen.seconds, seen.rows_per_second) == (0.5, 2000)
    assert seen.bad_records == {"trades": 2}


def test_rows_of_a_source_that_two_branches_read_count_once():
    seen = snapshot({**PROGRESS, "observedMetrics": {"rows_in:bids": {"rows": 450}, "rows_in:users": {"rows": 50}}})

    assert (seen.rows_in, seen.rows_per_second) == (500, 1000)


@pytest.mark.parametrize(
    ("counts", "dropped", "late"),
    [
        ([(299, 0), (282, 0)], [], 299),
        ([(299, 0)], [282], 299),
        ([(3, 1), (5, 1), (2, 2)], [4], 11),
        ([], [4, 3], 7),
    ],
)
def test_a_late_row_counts_once_among_operators_that_read_the_same_watermark(counts, dropped, late):
    metrics = {f"late_rows:{n}": {"late": count, "group": group} for n, (count, group) in enumerate(counts, 1)}
    operators = [{"operatorName": "symmetricHashJoin", "numRowsDroppedByWatermark": count} for count in dropped]

    seen = snapshot({**PROGRESS, "observedMetrics": metrics, "stateOperators": operators})

    assert seen.late_rows == late


def test_a_batch_is_one_line():
    assert line(snapshot(PROGRESS)) == (
        "board: batch 4, 1,000 rows, 2,000 rows/s, 0.50 s, watermark 2019-02-05 10:05:00, 2 bad records left out"
    )


def test_a_line_leaves_out_what_is_unknown():
    bare = {**PROGRESS, "eventTime": {"watermark": "1970-01-01T00:00:00.000Z"}, "observedMetrics": {}, "sink": {}}

    seen = snapshot(bare)

    assert line(seen) == "board: batch 4, 1,000 rows, 2,000 rows/s, 0.50 s"
    assert seen.rows_out is None


def test_the_totals_of_a_run_leave_out_empty_triggers():
    empty = {**PROGRESS, "sources": [], "observedMetrics": None}

    total = Total("board").add(snapshot(PROGRESS)).add(snapshot(empty)).add(snapshot(PROGRESS))

    assert summary(total) == "board: 2,000 rows in 2 batches at 2,000 rows/s, 4 bad records left out"
    assert summary(Total("idle")) == "idle: 0 rows in 0 batches"


def test_the_table_has_a_row_for_each_query_also_before_its_first_batch():
    drawn = totals_table([Total("board").add(snapshot(PROGRESS)), Total("idle")])

    assert [list(column.cells) for column in drawn.columns][:3] == [["board", "idle"], ["4", "-"], ["1,000", "waiting"]]
