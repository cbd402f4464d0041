"""Steps that remember: deduplication, running totals, processors of the user."""

from __future__ import annotations

import pytest

from penstock.errors import BuildError
from penstock.steps.running import RunningStep

SOURCE = """
sources:
  rows:
    files: {path: input, format: json, schema: "at timestamp, who string, amount int", files_per_trigger: 1}
    watermark: {column: at, delay: 10 minutes}
"""


def row(at: str, who: str, amount: int) -> str:
    return f'{{"at": "2024-01-01 {at}:00", "who": "{who}", "amount": {amount}}}\n'


def test_a_key_is_remembered_until_the_watermark_has_passed_it(project):
    project.put("input/1.json", row("10:00", "ann", 1) + row("10:00", "ann", 1) + row("10:01", "bob", 2), at=1)
    project.put("input/2.json", row("10:00", "ann", 1) + row("10:02", "eve", 3), at=2)

    project.run(
        "name: once" + SOURCE + "steps: {unique: {dedupe: {from: rows, keys: [who]}}}\n"
        "sinks: {dedupe_out: {from: unique, memory: {}}}\n"
    )

    assert [(who, amount) for _, who, amount in project.rows("dedupe_out")] == [("ann", 1), ("bob", 2), ("eve", 3)]


def test_a_key_is_remembered_for_ever_when_asked(project):
    project.put("input/1.json", row("10:00", "ann", 1), at=1)
    project.put("input/2.json", row("15:00", "eve", 3), at=2)
    project.put("input/3.json", row("16:00", "ann", 4), at=3)

    project.run(
        "name: ever" + SOURCE + "steps: {unique: {dedupe: {from: rows, keys: [who], remember: forever}}}\n"
        "sinks: {ever_out: {from: unique, memory: {}}}\n"
    )

    assert [(who, amount) for _, who, amount in project.rows("ever_out")] == [("ann", 1), ("eve", 3)]


RUNNING = """
steps:
  running:
    running: {from: rows, by: [who], order_by: at, totals: {total: sum(amount), n: count(*), most: max(amount)}}
sinks: {running_out: {from: running, memory: {}}}
"""


def test_running_totals_follow_the_rows_own_times_and_not_their_arrival(project):
    #  arrives   10:05   10:00   |   10:03   |   10:20 moves the watermark to 10:10
    project.put("input/1.json", row("10:05", "ann", 5) + row("10:00", "ann", 1) + row("10:01", "bob", 7), at=1)
    project.put("input/2.json", row("10:03", "ann", 2) + row("10:03", "ann", 4), at=2)
    project.put("input/3.json", row("10:20", "zoe", 0), at=3)

    project.run("name: running" + SOURCE + RUNNING)

    # Rows of one time are one step, as in SQL's default frame; zoe waits for the watermark.
    assert [tuple(each)[1:] for each in project.rows("running_out")] == [
        ("ann", 1, 1, 1, 1),
        ("bob", 7, 7, 1, 7),
        ("ann", 2, 7, 3, 4),
        ("ann", 4, 7, 3, 4),
        ("ann", 5, 12, 4, 5),
    ]


def test_running_totals_need_a_time_to_go_by(spark):
    # `check` says so where it knows the columns, which it does not behind a Python step.
    step = RunningStep.model_validate({"from": "rows", "order_by": "att", "totals": {"n": "count(*)"}})

    with pytest.raises(BuildError, match=r"there is no column 'att' to order by; did you mean 'at'\?"):
        step.build(spark, {"rows": spark.sql("SELECT current_timestamp() AS at")})


def test_running_totals_over_windows_give_the_net_value_of_the_trades(project):
    project.put("input/1.json", row("10:01", "BUY", 500) + row("10:05", "SELL", 200) + row("10:16", "BUY", 100), at=1)
    project.put("input/2.json", row("11:30", "BUY", 1), at=2)

    project.run(
        "name: net"
        + SOURCE
        + """
steps:
  totals: |
    SELECT window,
           sum(CASE WHEN who = 'BUY' THEN amount ELSE 0 END) AS buy,
           sum(CASE WHEN who = 'SELL' THEN amount ELSE 0 END) AS sell
    FROM rows GROUP BY window(at, '15 minutes')
  timed: SELECT window_time(window) AS at, window.end, buy, sell FROM totals
  running: {running: {from: timed, order_by: at, totals: {rbuy: sum(buy), rsell: sum(sell)}}}
  net: SELECT end, buy, sell, rbuy - rsell AS net FROM running
sinks: {net_out: {from: net, memory: {}}}
"""
    )

    assert [tuple(each)[1:] for each in project.rows("net_out")] == [(500, 200, 300), (100, 0, 400)]


COUNTER = """
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor


class Visits(StatefulProcessor):
    def init(self, handle):
        self.seen = handle.getValueState("seen", "n bigint", ttlDurationMs=None)

    def handleInputRows(self, key, rows, timerValues):
        n = (self.seen.get()[0] if self.seen.exists() else 0) + sum(1 for _ in rows)
        self.seen.update((n,))
        yield Row(who=key[0], n=n)
"""


def test_a_processor_of_the_user_keeps_its_state_over_batches_and_a_restart(project):
    project.put("visits.py", COUNTER)
    text = (
        "name: visits"
        + SOURCE
        + """
steps:
  counted: {processor: {class: "visits:Visits", from: rows, key: [who], output: "who string, n bigint"}}
sinks: {visits_out: {from: counted, files: {path: out, format: json}}}
"""
    )
    project.put("input/1.json", row("10:00", "ann", 1) + row("10:00", "ann", 1), at=1)
    project.run(text)
    project.put("input/2.json", row("10:01", "ann", 1) + row("10:01", "bob", 1), at=2)

    project.run(text)

    assert project.written("out", "json", "who string, n bigint") == [("ann", 2), ("ann", 3), ("bob", 1)]


def test_the_first_rows_of_each_group_are_ranked_and_the_newest_of_each_key_is_kept(project):
    project.put("input/1.json", row("10:05", "ann", 5) + row("10:00", "ann", 1) + row("10:01", "bob", 7), at=1)
    project.put("input/2.json", row("10:03", "ann", 9) + row("10:02", "eve", 3), at=2)

    project.run(
        "name: best" + SOURCE + "steps:\n"
        "  best: {top: {from: rows, by: [who], order_by: amount desc, n: 2}}\n"
        "  newest: {latest: {from: rows, by: [who], order_by: [at]}}\n"
        "sinks:\n"
        "  top_out: {from: best, memory: {}, mode: complete}\n"
        "  latest_out: {from: newest, memory: {}, mode: complete}\n"
    )

    ranked = sorted((who, rank, amount) for _, who, amount, rank in project.rows("top_out"))
    assert ranked == [("ann", 1, 9), ("ann", 2, 5), ("bob", 1, 7), ("eve", 1, 3)]
    assert sorted((who, amount) for _, who, amount in project.rows("latest_out")) == [
        ("ann", 5),
        ("bob", 7),
        ("eve", 3),
    ]
