"""Modes and triggers fit sinks, sources and steps."""

from __future__ import annotations

import pytest

TEXT = """\
sources:
  a: {{{source}}}
steps:
  g: {step}
sinks:
  b:
    from: g
    {sink}
    mode: {mode}
    trigger: {trigger}
"""
KAFKA = "kafka: {servers: x, topics: [t]}"
TO_KAFKA = "kafka: {servers: x, topic: u}"
GROUPS = "SELECT value, count(*) AS n FROM a GROUP BY value"
WINDOWS = "SELECT window.end, count(*) AS n FROM a GROUP BY window(timestamp, '1 minute')"
PLAIN = "SELECT * FROM a WHERE value IS NOT NULL"


def text(source="rate: ", step=PLAIN, sink="console:", mode="append", trigger="default"):
    return TEXT.format(source=source, step=step, sink=sink, mode=mode, trigger=trigger)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"step": GROUPS, "mode": "update"},
        {"step": GROUPS, "mode": "complete"},
        {"step": WINDOWS, "mode": "complete"},
        {"step": WINDOWS, "mode": "update", "source": "rate: , watermark: {column: timestamp, delay: 1 minute}"},
        {"step": WINDOWS, "source": "rate: , watermark: {column: timestamp, delay: 1 minute}"},
        {"step": "SELECT count(*) AS n FROM a", "mode": "complete"},
        {"step": "{python: 'json:loads', reads: [a]}", "mode": "complete"},
        {"step": "SELECT * FROM a JOIN (SELECT value, max(y) FROM VALUES (1, 2) v(value, y) GROUP BY 1) USING (value)"},
        {"source": KAFKA, "sink": TO_KAFKA, "trigger": "continuous 1 second"},
        {"source": KAFKA, "sink": TO_KAFKA, "trigger": "real-time 5 seconds", "mode": "update"},
        {"trigger": "available-now"},
    ],
)
def test_what_fits_is_fine(findings, given):
    assert findings(text(**given)) == []


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            {"sink": "files: {path: out}", "step": GROUPS, "mode": "update"},
            "a.yaml:9:5: sink 'b': files cannot write mode 'update'; use append",
        ),
        (
            {"step": WINDOWS, "mode": "update"},
            "a.yaml:4:46: warning: step 'g' groups by windows without a watermark: its state grows without limit; "
            "add 'watermark' to the source, on the column of the window",
        ),
        (
            {"mode": "complete"},
            "a.yaml:9:5: sink 'b' has mode 'complete', and 'g' does not aggregate; use append, or GROUP BY in a step",
        ),
        (
            {"step": GROUPS},
            "a.yaml:4:41: step 'g' has GROUP BY without an event time, and sink 'b' appends: no group is ever final; "
            "add 'watermark' to the source and group by a window of that column, or use mode update or complete",
        ),
        (
            {"source": KAFKA, "sink": "files: {path: out}", "trigger": "continuous 1 second"},
            "a.yaml:10:5: sink 'b': files cannot be written with trigger 'continuous 1 second'; "
            "use default, a duration like '1 second', once or available-now",
        ),
        (
            {"trigger": "real-time 5 seconds", "mode": "update"},
            "a.yaml:10:5: sink 'b': source 'a' (rate) cannot be read with trigger 'real-time 5 seconds'; "
            "use default, a duration like '1 second', once, available-now or continuous 1 second",
        ),
        (
            {"source": KAFKA, "sink": TO_KAFKA, "trigger": "real-time 1 second", "mode": "update"},
            "a.yaml:10:5: sink 'b': trigger 'real-time 1 second' is shorter than the 5 seconds that Spark allows; "
            "use 'real-time 5 seconds'; rows are written as they arrive, not at the end of it",
        ),
        (
            {"source": KAFKA, "trigger": "real-time 5 seconds"},
            "a.yaml:10:5: sink 'b': trigger 'real-time 5 seconds' cannot write mode 'append'; use mode update",
        ),
        (
            {"source": "rate: , watermark: {column: timestamp, delay: 1 minute}", "trigger": "continuous 1 second"},
            "a.yaml:10:5: sink 'b': source 'a' has a watermark, and trigger 'continuous 1 second' none; "
            "remove 'watermark', or use a duration like '1 second'",
        ),
        (
            {"trigger": "continuous 1 second", "step": GROUPS, "mode": "update"},
            "a.yaml:4:41: step 'g' groups rows, which trigger 'continuous 1 second' of sink 'b' cannot do; "
            "use a duration like '1 second' as trigger",
        ),
    ],
)
def test_what_does_not_fit_is_told_at_its_key(findings, given, says):
    assert findings(text(**given)) == [says]


def test_options_of_a_sink_that_cannot_write_the_mode_are_found(findings):
    text = """
sources: {a: {rate: }}
steps: {n: "SELECT value % 3 AS k, count(*) AS n FROM a GROUP BY value % 3"}
sinks:
  one: {from: n, delta: {path: x}, mode: update}
  two: {from: n, delta: {path: y, key: [k]}, mode: complete}
  three:
    from: n
    to:
      - jdbc: {url: "jdbc:mysql://db/shop?password=secret", table: t, key: [k]}
    mode: update
"""

    assert [each for each in findings(text) if "replac" in each] == [
        "a.yaml:5:18: sink 'one': mode update replaces rows, and a delta sink finds them by 'key'; add 'key: [...]'",
        "a.yaml:6:18: sink 'two': mode complete replaces the whole table; take 'key' out, or use mode update",
        "a.yaml:10:9: sink 'three': replacing rows by 'key' is supported for PostgreSQL and SQLite, not for "
        "jdbc:mysql://db/shop; take 'key' out",
    ]


def test_a_group_by_over_a_static_table_is_no_streaming_aggregation(findings):
    assert (
        findings("""\
sources:
  a: {rate: }
  users: {files: {path: users, format: json, schema: "value bigint, at timestamp"}, static: true}
steps:
  latest: SELECT value, max(at) AS at FROM users GROUP BY value
  joined: SELECT a.value, latest.at FROM a JOIN latest ON a.value = latest.value
  inside: SELECT a.value, u.n FROM a JOIN (SELECT value, count(*) AS n FROM users GROUP BY value) u USING (value)
sinks:
  b: {from: joined, console: }
  c: {from: inside, console: }
""")
        == []
    )
