"""The true number of late rows, how far back state reaches, and which of several watermarks counts."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F  # noqa: N812

from penstock import Pipeline, kafka, memory
from penstock.engine.row_counts import add_counts
from penstock.testing import Bench
from penstock.watch.emitter import OpenWindows
from penstock.watch.snapshot import snapshot

EVENTS = "at timestamp, kind string"


def pipeline(step: str, mode: str = "update", **settings: str) -> Pipeline:
    made = Pipeline("late", spark=settings)
    for name in ("events", "others"):
        made.source(name, kafka(servers="nowhere:1", topics=[name]), json=EVENTS, watermark=("at", "10 minutes"))
    made.sink("out", made.sql("counts", step), memory(), mode=mode)
    return made


def event(time: str, kind: str = "a") -> dict[str, str]:
    return {"at": f"2024-01-01 {time}", "kind": kind}


TUMBLING = "SELECT window.start, kind, count(*) AS n FROM events GROUP BY window(at, '5 minutes'), kind"
SLIDING = "SELECT window.start, count(*) AS n FROM events GROUP BY window(at, '15 minutes', '5 minutes')"
UNEVEN = "SELECT window.start, count(*) AS n FROM events GROUP BY window(at, '12 minutes', '5 minutes')"
SESSION = "SELECT session_window.start, count(*) AS n FROM events GROUP BY session_window(at, '5 minutes'), kind"
MOMENTS = "SELECT at, count(*) AS n FROM events GROUP BY at"
#: A remainder of the user's own is no window.
OWN_SESSION = """
    SELECT session_window.start, count(*) AS n FROM (SELECT at, length(kind) % 10 AS digit FROM events)
    GROUP BY session_window(at, '5 minutes'), digit
"""
OWN_MOMENTS = "SELECT at, count(*) AS n FROM (SELECT at, length(kind) % 10 AS digit FROM events) GROUP BY at, digit"
OWN_TUMBLING = """
    SELECT window.start, count(*) AS n FROM (SELECT at, length(kind) % 10 AS digit FROM events)
    GROUP BY window(at, '5 minutes'), digit
"""
WINDOW_OF_ANOTHER_STEP = """
    SELECT w.start, count(*) AS n FROM (SELECT window(at, '5 minutes') AS w, kind FROM events) GROUP BY w, kind
"""
#: Nexmark's query 7: two aggregations of one source, joined.
HIGHEST = """
    SELECT a.w.start, a.n, b.first FROM (SELECT window(at, '5 minutes') AS w, count(*) AS n FROM events GROUP BY 1) a
    JOIN (SELECT window(at, '5 minutes') AS w, min(kind) AS first FROM events GROUP BY 1) b ON a.w = b.w
"""


@pytest.mark.parametrize(
    ("step", "mode", "late"),
    [
        # The newest is 11:00, so the watermark is 10:50: a row is late if a window that holds it ends by then.
        (TUMBLING, "update", 5),
        (SLIDING, "append", 5),
        (UNEVEN, "update", 4),
        (SESSION, "append", 4),
        (MOMENTS, "update", 5),
        (OWN_SESSION, "append", 4),
        (OWN_MOMENTS, "update", 5),
        (OWN_TUMBLING, "update", 5),
        (WINDOW_OF_ANOTHER_STEP, "update", 5),
        (HIGHEST, "append", 5),
    ],
)
def test_every_late_row_counts_however_many_share_a_group(spark, step, mode, late):
    with Bench(pipeline(step, mode), spark) as bench:
        bench.feed("events", event("11:00:00"))
        bench.feed(
            "events",
            event("10:10:00"),
            event("10:10:01"),
            event("10:10:02"),
            event("10:44:59"),
            event("10:49:59"),
            event("10:51:00"),
            event("11:00:00"),
        )
        counted = bench.late_rows()

    assert counted == late


def test_what_a_step_filters_out_is_not_late(spark):
    step = "SELECT window.end, count(*) AS n FROM events WHERE kind = 'a' GROUP BY window(at, '5 minutes')"
    with Bench(pipeline(step), spark) as bench:
        bench.feed("events", event("11:00:00"))
        bench.feed("events", event("10:10:00"), event("10:10:00", "b"), event("10:11:00", "b"))

        assert bench.late_rows() == 1


def test_complete_mode_drops_nothing_and_counts_nothing(spark):
    with Bench(pipeline(TUMBLING, "complete"), spark) as bench:
        bench.feed("events", event("11:00:00"))
        bench.feed("events", event("10:10:00"))

        assert bench.late_rows() == 0
        assert len(bench.rows()) == 2


@pytest.mark.parametrize("how", ["restart", "before_commit"])
def test_the_watermark_before_a_restart_still_counts(spark, how):
    with Bench(pipeline(TUMBLING), spark) as bench:
        bench.feed("events", event("11:00:00"))
        bench.feed("events", event("11:00:01"))
        bench.restart() if how == "restart" else bench.crash(how)
        bench.feed("events", event("10:10:00"), event("10:10:01"))

        assert bench.late_rows() == 2


def test_late_rows_of_a_union_and_of_two_aggregations_in_a_row(spark):
    both = "SELECT * FROM events UNION ALL SELECT * FROM others"
    made = pipeline("SELECT window, count(*) AS n FROM both GROUP BY window(at, '5 minutes')", "append")
    made.sql("both", both)
    made.sql("ends", "SELECT window_time(window) AS at, n FROM counts")
    made.sql("hours", "SELECT window.start, sum(n) AS n FROM ends GROUP BY window(at, '1 hour')")
    made.sink("chained", "hours", memory())
    with Bench(made, spark) as bench:
        bench.feed_all({"events": [event("11:00:00")], "others": [event("11:00:00")]})
        bench.feed_all({"events": [event("10:10:00"), event("10:10:01")], "others": [event("10:10:02")]})

        assert bench.late_rows("out") == 3
        assert bench.late_rows("chained") == 3


def test_rows_too_late_for_a_join_or_a_dedupe_are_counted_once_each(spark):
    step = """
        SELECT events.at, others.kind FROM events JOIN others
        ON events.kind = others.kind AND others.at BETWEEN events.at AND events.at + INTERVAL 5 MINUTES
    """
    with Bench(pipeline(step, "append"), spark) as bench:
        bench.feed_all({"events": [event("11:00:00")], "others": [event("11:00:00")]})
        bench.feed_all({"events": [event("10:10:00"), event("10:10:01")], "others": []})

        assert bench.late_rows() == 2


@pytest.mark.parametrize("step", [TUMBLING, SLIDING, UNEVEN])
def test_the_oldest_open_window_is_known_after_every_batch(spark, step):
    windows = OpenWindows()
    with Bench(pipeline(step, "append"), spark) as bench:
        bench.feed("events", event("10:01:00"), event("10:16:00"), event("13:00:00"))
        bench.feed("events", event("16:00:00"))
        run = bench._runs["out"]
        oldest = [windows.oldest(run.reports[number]) for number in sorted(run.reports)]
        left = {row["start"] for row in bench.rows()}

    first = {TUMBLING: "2024-01-01 10:05:00", SLIDING: "2024-01-01 10:05:00", UNEVEN: "2024-01-01 10:02:00"}[step]
    assert oldest[0] == {"1": first}
    # What has not left yet is in the state: the windows around 16:00.
    last = {TUMBLING: "2024-01-01 16:05:00", SLIDING: "2024-01-01 16:05:00", UNEVEN: "2024-01-01 16:02:00"}[step]
    assert oldest[-1] == {"1": last}
    assert len(left) > 2


@pytest.mark.parametrize(("policy", "late"), [("min", 0), ("max", 1)])
def test_the_slowest_or_the_fastest_source_sets_the_watermark(spark, policy, late):
    made = pipeline("SELECT window.start, count(*) AS n FROM both GROUP BY window(at, '5 minutes')")
    made.sql("both", "SELECT * FROM events UNION ALL SELECT * FROM others")
    made._values["watermarks"] = policy
    with Bench(made, spark) as bench:
        bench.feed_all({"events": [event("12:00:00")], "others": [event("10:00:00")]})
        bench.feed_all({"events": [], "others": [event("10:01:00")]})

        assert bench.late_rows() == late


def test_rows_in_count_once_when_two_branches_of_a_query_read_one_source(spark):
    step = "SELECT a.at, b.kind FROM events a JOIN events b ON a.at = b.at AND a.kind = b.kind"
    with Bench(pipeline(step, "append"), spark) as joined, Bench(pipeline(HIGHEST, "append"), spark) as aggregated:
        counted = []
        for bench in (joined, aggregated):
            bench.feed("events", event("11:00:00"), event("11:00:01"), event("11:00:02"))
            counted.append(sum(snapshot(report).rows_in for report in bench._runs["out"].reports.values()))

    assert counted == [3, 3]


def test_what_cannot_be_counted_runs_without_counts_and_says_so(spark):
    rows = spark.readStream.format("rate").load().withWatermark("timestamp", "10 minutes")
    windows = rows.select(F.window("timestamp", "15 minutes", "5 minutes").alias("w"), "value")
    grouped = windows.groupBy("w").count()
    told = []
    sink = pipeline(TUMBLING).freeze().sinks[0]

    unchanged = add_counts(sink, grouped, {"rows": rows}, lambda what, **facts: told.append((what, facts)))

    assert unchanged is grouped
    reason = "its sliding windows are made in another step, which leaves the time column out"
    assert told == [("not_counted", {"sink": "out", "reason": reason})]


def test_counting_compiles_no_code_when_the_watermark_moves(spark):
    compiled = spark._jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME()
    with Bench(pipeline(TUMBLING), spark) as bench:
        for minute in range(3):
            bench.feed("events", event(f"11:{minute:02}:00"), event("10:10:00"))
        before = compiled.getCount()
        for minute in range(3, 5):
            bench.feed("events", event(f"11:{minute:02}:00"), event("10:10:00"))

        # One of Spark's own in each batch: the predicate that finds closed windows in the state has the watermark as
        # a constant.
        assert compiled.getCount() - before <= 2
        assert bench.late_rows() == 4
