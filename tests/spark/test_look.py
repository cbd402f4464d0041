"""A look at what flows: a query of its own, with limits, and nothing left behind."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from tests.conftest import Project

from penstock.errors import CallError, RunError
from penstock.preview.query import Limits, preview, preview_rows
from penstock.preview.request import PreviewRequest, messages, resolve

TEXT = """
name: words
sources:
  words: {files: {path: in, format: json, schema: "word string, n int"}}
steps: {loud: "SELECT upper(word) AS word, n FROM words"}
sinks: {out: {from: loud, files: {path: out, format: parquet}}}
"""
ROWS = '{"word": "a", "n": 1}\n{"word": "b", "n": 2}\n{"word": "a", "n": 3}\n'


def asked(project: Project, **wanted) -> tuple:
    """What is needed for a look, with its paths absolute."""
    from penstock.engine.prepare import absolute

    file = project.put("words.yaml", TEXT)
    ready = resolve(PreviewRequest(str(file), **wanted))
    return absolute(ready.pipeline), ready.name


def test_rows_of_a_step_arrive_and_the_sinks_are_not_run(project: Project):
    project.put("in/1.json", ROWS)
    pipeline, name = asked(project, start="earliest")

    with preview(pipeline, project.spark, name, Limits(rows=3)) as looked:
        seen = list(messages(looked))

    assert seen[0] == {
        "what": "columns",
        "columns": [{"name": "word", "type": "string"}, {"name": "n", "type": "int"}],
        "mode": "append",
    }
    assert [row for message in seen[1:-1] for row in message["rows"]] == [["A", 1], ["B", 2], ["A", 3]]
    assert seen[-1] == {"what": "end", "why": "3 rows were shown"}
    assert project.spark.streams.active == []
    assert not (project.folder / "out").exists()
    assert not (project.folder / ".penstock").exists()


def test_a_running_aggregate_is_shown_whole_after_each_batch(project: Project):
    project.put("in/1.json", ROWS)
    pipeline, name = asked(project, sql="SELECT word, sum(n) AS n FROM words GROUP BY word ORDER BY word")

    with preview(pipeline, project.spark, name, Limits()) as looked:
        first = next(looked.rows)
        project.put("in/2.json", '{"word": "c", "n": 5}\n')
        second = next(looked.rows)

    assert (first.replaces, first.rows) == (True, [["a", 4], ["b", 2]])
    assert (second.replaces, second.rows) == (True, [["a", 4], ["b", 2], ["c", 5]])


def test_rows_beyond_the_limit_are_left_out_and_counted(project: Project):
    project.put("in/1.json", ROWS)
    pipeline, name = asked(project)

    with preview(pipeline, project.spark, name, Limits(rows=2)) as looked:
        (shown,) = list(looked.rows)

    assert (len(shown.rows), shown.left_out) == (2, 1)


def test_a_slow_look_is_told_what_it_has_missed(spark, tmp_path: Path):
    rows = spark.readStream.format("rate").option("rowsPerSecond", 10).load().select("value")

    with preview_rows(rows, Limits(rows=10**6, per_second=1)) as looked:
        shown = list(itertools.takewhile(lambda each: not each.left_out, looked.rows))

    assert sum(len(each.rows) for each in shown) < 100


def test_a_look_ends_when_its_time_is_over_and_when_it_is_told_to(spark):
    rows = spark.readStream.format("rate").load()

    with preview_rows(rows, Limits(seconds=0)) as looked:
        list(looked.rows)
    assert looked.why() == "0 seconds are over"
    with preview_rows(rows, Limits(), enough=lambda: True) as looked:
        list(looked.rows)
    assert looked.why() == "stopped"
    assert spark.streams.active == []


def test_bad_records_are_seen_with_the_reason(project: Project):
    project.put("in/1.json", ROWS + "{oops\n")
    pipeline, name = asked(project, step="words", bad=True)

    with preview(pipeline, project.spark, name, Limits(rows=1), bad=True) as looked:
        (shown,) = list(looked.rows)

    assert shown.rows == [["not of the declared schema", "{oops"]]


def test_a_step_has_no_bad_records_and_a_table_is_no_stream(project: Project, spark):
    pipeline, name = asked(project)

    with pytest.raises(CallError, match="'loud' is a step"), preview(pipeline, spark, name, Limits(), bad=True):
        pass
    with pytest.raises(CallError, match="not a stream"), preview_rows(spark.range(3), Limits()):
        pass


def test_what_fails_while_it_runs_is_said_in_a_sentence(spark):
    rows = spark.readStream.format("rate").load().selectExpr("raise_error('<b>no</b>') AS x")

    with pytest.raises(RunError, match="<b>no</b>"), preview_rows(rows, Limits()) as looked:
        list(looked.rows)


def test_every_kind_of_value_can_be_json(spark):
    rows = (
        spark.readStream.format("rate")
        .load()
        .selectExpr(
            "9007199254740993L AS big",
            "double('NaN') AS nan",
            "1.50BD AS money",
            "timestamp'2024-01-01 10:00:00' AS at",
            "date'2024-01-01' AS day",
            "x'00ff' AS raw",
            "named_struct('a', array(1, 2)) AS nested",
            "map('k', null) AS pairs",
            "true AS yes",
        )
    )

    with preview_rows(rows, Limits(rows=1)) as looked:
        (shown,) = [each for each in looked.rows if each.rows]

    assert shown.rows[0] == [
        "9007199254740993",
        "nan",
        "1.50",
        "2024-01-01 10:00:00",
        "2024-01-01",
        "0x00ff",
        {"a": [1, 2]},
        {"k": None},
        True,
    ]
