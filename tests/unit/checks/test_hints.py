"""SQL of other engines and misspelled SQL: Spark's form is offered."""

from __future__ import annotations

import pytest

from penstock.checks.sql import find_flink_windows, suggest_query_start
from penstock.sql import parse


@pytest.mark.parametrize("word", ["SELEC", "selct", "SELCET", "slect"])
def test_a_misspelled_select_is_recognised(word):
    assert suggest_query_start(parse(f"{word} a FROM t").tokens) == "did you mean SELECT?"


@pytest.mark.parametrize("text", ["SELECT 1", "WITH a AS (SELECT 1) SELECT * FROM a", "DELETE FROM t", "", "hello"])
def test_other_first_words_get_no_suggestion(text):
    assert suggest_query_start(parse(text).tokens) is None


@pytest.mark.parametrize(
    ("flink", "spark"),
    [
        ("GROUP BY TUMBLE(ts, INTERVAL '10' MINUTES), k", ["window(ts, '10 minutes')"]),
        ("GROUP BY tumble(a.ts, INTERVAL '1' HOUR)", ["window(a.ts, '1 hour')"]),
        (
            "GROUP BY HOP(ts, INTERVAL '5' MINUTE, INTERVAL '10' MINUTE)",
            ["window(ts, '10 minutes', '5 minutes')"],
        ),
        ("GROUP BY SESSION(ts, INTERVAL '30' SECOND)", ["session_window(ts, '30 seconds')"]),
        (
            ", TABLE(TUMBLE(TABLE bids, DESCRIPTOR(bidtime), INTERVAL '10' MINUTES)) GROUP BY window_start",
            ["window(bidtime, '10 minutes')"],
        ),
        ("WHERE TUMBLE_END(ts, INTERVAL '10' MINUTES) > now()", ["window.end"]),
        ("GROUP BY TUMBLE(ts, INTERVAL size)", ["window(t, '10 minutes')"]),
    ],
)
def test_windows_of_flink_get_their_spark_form(flink, spark):
    tokens = parse(f"SELECT count(*) FROM t {flink}").tokens

    assert [form for _, form in find_flink_windows(tokens)] == spark


@pytest.mark.parametrize(
    "text",
    [
        "WITH session (a, b) AS (SELECT 1, 2) SELECT * FROM session",
        "SELECT session, hop FROM t WHERE session IN (1, 2)",
        "SELECT 'TUMBLE(ts, INTERVAL 10 MINUTES)' AS text FROM t",
        "SELECT count(*) FROM t GROUP BY window(ts, '10 minutes'), session_window(ts, '5 minutes')",
    ],
)
def test_names_that_flink_uses_for_windows_are_free_otherwise(text):
    assert list(find_flink_windows(parse(text).tokens)) == []


def test_check_names_the_line_and_the_spark_form(findings):
    text = (
        "sources: {t: {rate: {}}}\nsteps:\n  n: |\n    SELECT count(*) FROM t\n"
        "    GROUP BY TUMBLE(timestamp, INTERVAL '10' MINUTES)\nsinks: {out: {from: n, console: {}, mode: update}}\n"
    )

    says = "step 'n': 'TUMBLE' is a window of Flink, which Spark does not have"
    assert f"a.yaml:5:14: {says}; write window(timestamp, '10 minutes')" in findings(text)
