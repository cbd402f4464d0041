"""Streaming rules agree with Spark's checker; tests/agreement asks Spark itself."""

from __future__ import annotations

import pytest

from penstock.checks import check
from penstock.load import load_text

TEXT = """\
sources:
  a: {{kafka: {{servers: x, topics: [a]}}, json: "id int, at timestamp, kind string", {watermark}}}
  b: {{kafka: {{servers: x, topics: [b]}}, json: "id int, at timestamp, kind string", {watermark}}}
  t: {{files: {{path: t, format: json, schema: "id int, name string"}}, static: true}}
steps:
{steps}
sinks:
  out: {{from: s, console: {{}}, mode: {mode}, trigger: {trigger}}}
  rest: {{from: u, console: {{}}}}
"""
WATERMARK = "watermark: {column: at, delay: 1 hour}"
READ_ALL = "  u: SELECT a.id FROM a JOIN b ON a.id = b.id JOIN t ON a.id = t.id"
MINUTES = "window(at, '5 minutes')"


def rules(*steps: str, mode: str = "append", trigger: str = "default", watermark: str = WATERMARK) -> list[str]:
    names = [*(f"r{number}" for number in range(len(steps) - 1)), "s"]
    lines = [f"  {name}: {sql}" for name, sql in zip(names, steps, strict=True)]
    text = TEXT.format(watermark=watermark, steps="\n".join([*lines, READ_ALL]), mode=mode, trigger=trigger)
    found = check(load_text(text.encode(), "a.yaml"))
    return [finding.rule for finding in found if finding.rule != "state-ends"]


BOUND = "a.id = b.id AND a.at BETWEEN b.at - INTERVAL 1 HOUR AND b.at + INTERVAL 1 HOUR"


@pytest.mark.parametrize(
    ("steps", "mode", "expected"),
    [
        ((f"SELECT {MINUTES} AS w, count(*) AS n FROM a GROUP BY {MINUTES}",), "append", []),
        ((f"SELECT {MINUTES} AS w, count(*) AS n FROM a GROUP BY 1",), "append", []),
        ((f"SELECT {MINUTES} AS w, count(*) AS n FROM a GROUP BY w",), "append", []),
        ((f"SELECT {MINUTES} AS w, count(*) AS n FROM a GROUP BY ALL",), "append", []),
        (("SELECT at AS t FROM a", "SELECT t, count(*) AS n FROM r0 GROUP BY t"), "append", []),
        (("SELECT kind, count(*) AS n FROM a GROUP BY kind",), "append", ["append-has-watermark"]),
        (("SELECT date_trunc('hour', at) AS h, count(*) AS n FROM a GROUP BY 1",), "append", ["append-has-watermark"]),
        (
            ("SELECT CAST(at AS timestamp) AS t FROM a", "SELECT t FROM r0 GROUP BY t"),
            "append",
            ["append-has-watermark"],
        ),
        (("SELECT DISTINCT kind FROM a",), "append", ["append-has-watermark"]),
        (("SELECT DISTINCT kind, at FROM a",), "append", []),
        (("SELECT count(*) AS n FROM a",), "complete", []),
        (("SELECT id FROM a",), "complete", ["complete-has-aggregation"]),
        (
            (
                f"SELECT {MINUTES} AS w, count(*) AS n FROM a GROUP BY {MINUTES}",
                "SELECT window(window_time(w), '1 hour') AS h, max(n) AS n FROM r0 GROUP BY 1",
            ),
            "append",
            [],
        ),
        (("SELECT session_window(at, '5 minutes') AS w, id FROM a GROUP BY 1, id",), "append", []),
        (("SELECT session_window(at, '5 minutes') AS w FROM a GROUP BY 1",), "append", ["sessions-fit"]),
        (("SELECT kind, count(*) AS n FROM a GROUP BY kind ORDER BY n",), "complete", []),
        (("SELECT id FROM a LIMIT 3",), "append", []),
        (("SELECT id FROM a LIMIT 3",), "update", ["streams-are-whole"]),
        (("SELECT id FROM a UNION ALL SELECT id FROM b",), "append", []),
        (("SELECT id FROM a UNION ALL SELECT id FROM t",), "append", ["streams-are-combined"]),
        (("SELECT id FROM a WHERE id IN (SELECT id FROM t)",), "append", []),
        (("SELECT id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.id = a.id)",), "append", ["subqueries-are-static"]),
        (("SELECT a.id FROM a LEFT JOIN t ON a.id = t.id",), "append", []),
        (("SELECT a.id FROM a RIGHT JOIN t ON a.id = t.id",), "append", ["joins-keep-streams"]),
        (("SELECT a.id FROM a JOIN b ON a.id = b.id",), "update", []),
        (("SELECT a.id FROM a, b WHERE a.id = b.id",), "append", []),
        (("SELECT a.id FROM a JOIN b ON a.at > b.at",), "append", ["joins-of-streams-end"]),
        ((f"SELECT a.id FROM a LEFT JOIN b ON {BOUND}",), "append", []),
        ((f"SELECT a.id FROM a LEFT JOIN b ON {BOUND}",), "update", ["joins-of-streams-end"]),
        (("SELECT a.id FROM a LEFT JOIN b ON a.id = b.id",), "append", ["joins-of-streams-end"]),
        (("SELECT a.id FROM a LEFT JOIN b ON a.id = b.id AND a.at >= b.at - INTERVAL 1 HOUR",), "append", []),
        (
            ("SELECT a.id FROM a LEFT JOIN b ON a.id = b.id AND a.at <= b.at + INTERVAL 1 HOUR",),
            "append",
            ["joins-of-streams-end"],
        ),
        (("SELECT a.id FROM a RIGHT JOIN b ON a.id = b.id AND a.at <= b.at + INTERVAL 1 HOUR",), "append", []),
        (
            ("SELECT a.id FROM a LEFT JOIN b ON a.id = b.id AND a.at >= b.at - INTERVAL 1 MONTH",),
            "append",
            ["joins-of-streams-end"],
        ),
        (("SELECT a.id FROM a LEFT JOIN b ON a.id = b.id AND a.at = b.at",), "append", []),
        (("SELECT id FROM a LEFT JOIN b USING (id, at)",), "append", []),
        (("SELECT a.id FROM a LEFT ANTI JOIN b ON a.id = b.id",), "append", ["joins-of-streams-end"]),
        (("SELECT size(collect_set(id)) AS n FROM a",), "complete", []),
        (("{python: 'json:loads', reads: [a]}", "SELECT x, count(*) AS n FROM r0 GROUP BY x"), "append", []),
    ],
)
def test_a_query_is_refused_as_by_spark(steps: tuple[str, ...], mode: str, expected: list[str]):
    assert rules(*steps, mode=mode) == expected


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT id, a.kind AS k FROM a WHERE id > 1", []),
        ("SELECT id, id + 1 AS n, n * 2 AS m FROM a", []),
        ("SELECT transform(array(id), x -> x + id) AS y FROM a", []),
        ("WITH c AS (SELECT id AS n FROM a) SELECT n FROM c", []),
        ("SELECT n FROM (SELECT id AS n FROM a) AS c(n)", []),
        ("SELECT date_add(at, 3) AS d, current_date AS e, extract(HOUR FROM at) AS h FROM a", []),
        ("SELECT id FROM a WHERE EXISTS (SELECT 1 FROM t WHERE t.id = a.id AND kind = 'x')", []),
        ("SELECT id, tag FROM a LATERAL VIEW explode(split(kind, ' ')) x AS tag", []),
        ("SELECT idd FROM a", ["columns-exist"]),
        ("SELECT a.name FROM a JOIN t ON a.id = t.id", ["columns-exist"]),
        ("SELECT n FROM (SELECT id FROM a)", ["columns-exist"]),
        ("SELECT id FROM a WHERE n > 1", ["columns-exist"]),
        ("SELECT id, n FROM a LATERAL VIEW explode(split(kind, ' ')) x AS tag", ["columns-exist"]),
        ("SELECT id FROM a LATERAL VIEW explode(split(kynd, ' ')) x AS tag", ["columns-exist"]),
        ("SELECT id FROM a, LATERAL explode(split(kynd, ' ')) AS x(tag)", ["columns-exist"]),
        ("SELECT date_truncate('hour', at) AS h FROM a", ["functions-exist"]),
    ],
)
def test_names_in_sql_are_known(sql: str, expected: list[str]):
    assert rules(sql) == expected


def test_a_misspelled_column_is_told_at_its_line_with_the_one_that_was_meant():
    text = TEXT.format(
        watermark=WATERMARK,
        steps=f"  s: |\n    SELECT id\n    FROM a\n    WHERE knid = 1\n{READ_ALL}",
        mode="append",
        trigger="default",
    )

    (finding,) = [each for each in check(load_text(text.encode(), "a.yaml")) if each.rule != "state-ends"]

    assert str(finding) == "a.yaml:9:11: step 's': there is no column 'knid'; did you mean 'kind'?"


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT id FROM a WHERE id > 1", []),
        ("WITH c AS (SELECT id FROM a) SELECT id FROM c", ["trigger-fits-steps"]),
        ("SELECT now() AS n FROM a", ["trigger-fits-steps"]),
        ("SELECT id FROM a UNION ALL SELECT id FROM b", ["trigger-fits-steps"]),
    ],
)
def test_a_continuous_query_selects_and_filters(sql: str, expected: list[str]):
    text = TEXT.format(watermark="", steps=f"  s: {sql}\n{READ_ALL}", mode="append", trigger="continuous 1 second")

    found = check(load_text(text.encode(), "a.yaml"))

    assert [each.rule for each in found if each.rule not in ("trigger-fits-sink", "state-ends")] == expected


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id FROM a WHERE id > (SELECT max(id) FROM t)",
        "SELECT id FROM a WHERE id IN (SELECT id FROM t)",
        "SELECT id, (SELECT max(name) FROM t) AS n FROM a",
    ],
)
def test_a_continuous_query_may_have_a_subquery_of_a_static_table(sql: str):
    assert rules(sql, trigger="continuous 1 second", watermark="metadata: true") == []


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT a.id, t.name FROM a LEFT JOIN t ON a.id = t.id", []),
        ("SELECT id FROM a WHERE id NOT IN (SELECT id FROM t)", []),
        ("SELECT a.id, t.name FROM a JOIN t ON a.id > t.id", ["trigger-fits-steps"]),
        ("SELECT a.id, t.name FROM a CROSS JOIN t", ["trigger-fits-steps"]),
    ],
)
def test_a_real_time_query_joins_a_table_by_an_equality(sql: str, expected: list[str]):
    assert rules(sql, mode="update", trigger="real-time 5 seconds") == expected


JOINED = f"SELECT a.id, a.at, b.at AS b_at FROM a JOIN b ON {BOUND}"
SIDES = [f"(SELECT *, {MINUTES} AS w FROM {name}) AS {name}" for name in ("a", "b")]
SLOTS = f"{SIDES[0]} JOIN {SIDES[1]} ON a.id = b.id AND a.w = b.w"
ONE = "state-has-one-event-time"


@pytest.mark.parametrize(
    ("steps", "mode", "expected"),
    [
        (("SELECT * FROM a WATERMARK at DELAY OF INTERVAL 5 MINUTES",), "append", ["watermark-is-set-once"]),
        (
            ("SELECT id, at FROM a", "SELECT id FROM r0 WATERMARK at DELAY OF INTERVAL 5 MINUTES"),
            "append",
            ["watermark-is-set-once"],
        ),
        ((f"SELECT at, {MINUTES} AS w, count(*) AS n FROM a GROUP BY at, {MINUTES}",), "append", [ONE]),
        ((f"SELECT at, {MINUTES} AS w, count(*) AS n FROM a GROUP BY at, {MINUTES}",), "complete", []),
        ((f"SELECT DISTINCT at, {MINUTES} AS w FROM a",), "append", [ONE]),
        ((JOINED, "{dedupe: {from: r0, keys: [id]}}"), "append", [ONE]),
        ((JOINED, "{dedupe: {from: r0, keys: [id]}}", "SELECT id, at FROM r1"), "append", [ONE]),
        ((JOINED, "{dedupe: {from: r0, keys: [id], remember: forever}}"), "append", [ONE]),
        ((JOINED, "{running: {from: r0, by: [id], order_by: at, totals: {n: count(*)}}}"), "append", [ONE]),
        ((f"SELECT a.id, a.at FROM {SLOTS}",), "append", [ONE]),
        ((f"SELECT a.id, a.w FROM {SLOTS}",), "append", []),
        ((JOINED, "SELECT r0.id, r0.at FROM r0 JOIN b ON r0.id = b.id AND r0.at >= b.at"), "append", []),
        (
            (
                JOINED,
                "SELECT id, at, b_at + INTERVAL 0 SECONDS AS b_at FROM r0",
                "{running: {from: r1, by: [id], order_by: at, totals: {n: count(*)}}}",
            ),
            "append",
            [],
        ),
        ((JOINED, f"SELECT {MINUTES} AS w, max(b_at) AS m FROM r0 GROUP BY {MINUTES}"), "append", []),
    ],
)
def test_what_spark_refuses_in_the_first_batch_is_refused(steps: tuple[str, ...], mode: str, expected: list[str]):
    assert rules(*steps, mode=mode) == expected


def test_a_plan_that_reads_a_stream_in_many_places_is_walked_once():
    steps = [f"SELECT x.id FROM {name} x JOIN {name} y ON x.id = y.id" for name in ["a", *(f"r{n}" for n in range(39))]]

    assert rules(*steps) == []


@pytest.mark.parametrize(
    ("step", "says"),
    [
        (f"SELECT a.id FROM a JOIN b ON {BOUND}", ""),
        ("SELECT a.id FROM a JOIN b ON a.id = b.id AND a.at = b.at", ""),
        ("{dedupe: {from: a, keys: id}}", ""),
        ("{dedupe: {from: a, keys: id, remember: forever}}", "remembers every key forever"),
        ("SELECT a.id FROM a JOIN b ON a.id = b.id", "joins the streams a and b and keeps every row of both"),
        (
            "SELECT a.id FROM a JOIN b ON a.id = b.id AND a.at >= b.at",
            "joins the streams a and b and keeps every row of the right side",
        ),
    ],
)
def test_state_that_grows_without_limit_is_told(step: str, says: str):
    text = TEXT.format(watermark=WATERMARK, steps=f"  s: {step}\n{READ_ALL}", mode="append", trigger="default")

    found = [
        each for each in check(load_text(text.encode(), "a.yaml")) if each.rule == "state-ends" and "'s'" in each.says
    ]

    assert [each.says for each in found] == [
        f"step 's' {says}: its state grows without limit" for says in [says] if says
    ]
    assert all(each.severity == "warning" for each in found)


@pytest.mark.parametrize(
    ("sql", "fix"),
    [
        (
            "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY kind ORDER BY id DESC) AS n FROM a) WHERE n <= 3",
            "use a step {top: {from: a, by: [kind], order_by: id desc, n: 10}}",
        ),
        (
            "SELECT id FROM a QUALIFY rank() OVER (ORDER BY at) = 1",
            "use a step {top: {from: a, by: [], order_by: at, n: 10}}",
        ),
        ("SELECT sum(id) OVER (PARTITION BY kind) AS s FROM a", "use a 'running' step for totals"),
    ],
)
def test_rows_with_numbers_are_pointed_to_a_top_step(sql: str, fix: str):
    text = TEXT.format(watermark=WATERMARK, steps=f"  s: {sql}\n{READ_ALL}", mode="append", trigger="default")

    (found,) = [each for each in check(load_text(text.encode(), "a.yaml")) if each.rule == "streams-are-not-windowed"]

    assert found.fix.startswith(fix)


@pytest.mark.parametrize(
    ("steps", "mode", "expected"),
    [
        (("{top: {from: a, by: [kind], order_by: id desc, n: 3}}",), "update", []),
        (("{latest: {from: a, by: [kind], order_by: at}}",), "append", ["append-has-watermark"]),
        (("{latest: {from: a, by: [at], order_by: id}}",), "append", []),
        (("{top: {from: a, by: [knd], order_by: [id, kindd], n: 3}}",), "update", ["columns-exist", "columns-exist"]),
        (("{top: {from: a, by: [kind], order_by: id, n: 3}}", "SELECT rank + 1 AS r, kind FROM r0"), "update", []),
    ],
)
def test_top_and_latest_are_aggregations(steps: tuple[str, ...], mode: str, expected: list[str]):
    assert rules(*steps, mode=mode) == expected


def test_a_watermark_of_sql_is_one():
    sql = "SELECT * FROM a WATERMARK at DELAY OF INTERVAL 5 MINUTES"

    assert rules(sql, "{dedupe: {from: r0, keys: [id]}}", watermark="bad_records: drop") == []


def test_the_result_of_an_aggregation_may_have_another_watermark():
    steps = ("SELECT DISTINCT id, at FROM a", "SELECT * FROM r0 WATERMARK at DELAY OF INTERVAL 5 MINUTES")

    assert rules(*steps) == []
