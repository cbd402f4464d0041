"""Rows from other rows: SQL, Python functions, and what is said when they do not fit."""

from __future__ import annotations

import sys

import pytest

from penstock.checks import check
from penstock.engine import prepare
from penstock.load import load


@pytest.fixture
def lines(project):
    """A folder with a file of three lines."""
    project.put("input/a.txt", "one\ntwo\nthree\n")
    return project


@pytest.fixture(autouse=True)
def _own_modules():
    """Modules that a test puts beside its file are gone after it."""
    modules, path = set(sys.modules), list(sys.path)
    yield
    for name in set(sys.modules) - modules:
        if name.startswith("beside_"):
            del sys.modules[name]
    sys.path[:] = path


def python_step(function: str) -> str:
    return f"""
    name: p
    sources:
      lines: {{files: {{path: input}}}}
    steps:
      step: {{python: "{function}", reads: [lines]}}
    sinks:
      out: {{from: step, memory: {{}}}}
    """


def test_sql_unites_streams_and_reads_other_steps_in_any_order(lines):
    lines.put("other/b.csv", "four\nfive\n")

    lines.run("""
        name: p
        sources:
          lines: {files: {path: input}}
          others: {files: {path: other, format: csv, schema: word string}}
        steps:
          long: SELECT word FROM both WHERE length(word) > 3
          both: |
            SELECT value AS word FROM lines
            UNION ALL
            SELECT word FROM others
        sinks:
          out: {from: long, memory: {}}
        """)

    assert lines.rows("out") == [("five",), ("four",), ("three",)]


def test_streams_are_joined_within_their_watermarks(project):
    project.put("orders/a.csv", "1,2024-01-01 10:00:00\n2,2024-01-01 10:00:00\n")
    project.put("payments/a.csv", "1,2024-01-01 10:05:00\n2,2024-01-01 12:00:00\n")

    project.run("""
        name: p
        sources:
          orders:
            files: {path: orders, format: csv, schema: "id int, ordered timestamp"}
            watermark: {column: ordered, delay: 1 hour}
          payments:
            files: {path: payments, format: csv, schema: "id int, paid timestamp"}
            watermark: {column: paid, delay: 1 hour}
        steps:
          soon: |
            SELECT orders.id FROM orders JOIN payments
            ON orders.id = payments.id AND paid BETWEEN ordered AND ordered + INTERVAL 10 MINUTES
        sinks:
          out: {from: soon, memory: {}}
        """)

    assert project.rows("out") == [(1,)]


def test_a_wrong_column_is_named_with_the_line_of_the_sql_in_the_file(lines, refusal):
    said = refusal(
        lines.run,
        """\
        name: p
        sources:
          lines: {files: {path: input}}
        steps:
          step: |
            SELECT
              valeu
            FROM lines
        sinks:
          out: {from: step, memory: {}}
        """,
        checked=False,
    )

    assert said == f"{lines.folder}/pipeline.yaml:7:7: step 'step': there is no column 'valeu'; did you mean 'value'?"
    assert "\n" not in said


def test_a_division_by_zero_in_the_data_is_one_line(lines, refusal):
    said = refusal(
        lines.run,
        """\
        name: p
        sources:
          lines: {files: {path: input}}
        steps:
          step: SELECT 1 / (length(value) - 5) AS n FROM lines
        sinks:
          out: {from: step, memory: {}}
        """,
    )

    assert said.startswith(f"{lines.folder}/pipeline.yaml:5:16: sink 'out': [DIVIDE_BY_ZERO] Division by zero.")
    assert "\n" not in said


def test_a_function_beside_the_file_makes_rows_and_its_udf_runs_in_workers(lines):
    lines.put(
        "beside_udf.py",
        """
        from pyspark.sql import functions as F

        def loud(text):
            return text.upper()

        @F.udf("string")
        def shout(text):
            return loud(text) + "!"

        def step(lines):
            return lines.select(shout("value").alias("value"))
        """,
    )

    lines.run(python_step("beside_udf:step"))

    assert lines.rows("out") == [("ONE!",), ("THREE!",), ("TWO!",)]


def test_a_function_takes_the_streams_that_it_reads_in_that_order(lines):
    lines.put("other/b.txt", "four\n")
    lines.put(
        "beside_order.py", "def step(first, second):\n    return first.selectExpr(\"'first' AS n\").union(second)\n"
    )

    lines.run("""
        name: p
        sources:
          lines: {files: {path: input}}
          others: {files: {path: other}}
        steps:
          step: {python: "beside_order:step", reads: [others, lines]}
        sinks:
          out: {from: step, memory: {}}
        """)

    assert lines.rows("out") == [("first",), ("one",), ("three",), ("two",)]


REFUSALS = {
    "raises_on_import": ("1 / 0", "importing 'beside_{}' raised ZeroDivisionError: division by zero"),
    "does_not_parse": ("def step(", "importing 'beside_{}' raised SyntaxError: '(' was never closed"),
    "needs_more": ("import not_there_at_all", "'beside_{}' imports 'not_there_at_all', which is not installed"),
    "has_no_function": ("def other(lines): ...", "'beside_{}' has no 'step'"),
    "returns_nothing": ("def step(lines): ...", "beside_{}:step returned NoneType; return a DataFrame"),
    "takes_another_number": ("def step(): ...", "step"),
    "asks_for_a_wrong_column": (
        "def step(lines): return lines.select('valeu')",
        "there is no column 'valeu'; did you mean 'value'?",
    ),
}


@pytest.mark.parametrize("what", REFUSALS)
def test_a_function_that_cannot_be_used_is_refused_by_name(lines, refusal, what):
    content, says = REFUSALS[what]
    lines.put(f"beside_{what}.py", content)

    # `check` finds most of them before.
    said = refusal(lines.run, python_step(f"beside_{what}:step"), checked=False)

    assert said.startswith(f"{lines.folder}/pipeline.yaml:6:3: step 'step': {says.format(what)}"), said
    assert "\n" not in said


def test_a_module_that_is_not_there_is_named(lines, refusal):
    said = refusal(lines.run, python_step("beside_nothing:step"), checked=False)

    assert said == (
        f"{lines.folder}/pipeline.yaml:6:3: step 'step': no module 'beside_nothing'; "
        "put beside_nothing.py next to the pipeline file"
    )


def test_a_udf_that_raises_ends_the_run_with_its_own_words_and_line(lines, refusal):
    lines.put(
        "beside_raises.py",
        """\
        from pyspark.sql import functions as F

        @F.udf("string")
        def fussy(text):
            raise ValueError(f"I do not like {text}")

        def step(lines):
            return lines.select(fussy("value").alias("value"))
        """,
    )

    said = refusal(lines.run, python_step("beside_raises:step"))

    assert "sink 'out': ValueError: I do not like one (beside_raises.py:5 in fussy)" in said
    assert "\n" not in said


PYTHON = """
from pyspark.sql import DataFrame, functions as F

from penstock import Pipeline, files, memory

pipeline = Pipeline("p")
pipeline.source("lines", files(path="input"))


@F.udf("string")
def shout(text):
    return text.upper()


@pipeline.step
def loud(lines: DataFrame) -> DataFrame:
    return lines.select(shout("value").alias("word"))


pipeline.sql("long", "SELECT word FROM loud WHERE length(word) > 3")
pipeline.sink("out", "long", memory())
"""


def test_a_pipeline_said_in_python_gives_what_the_same_in_yaml_gives(lines):
    lines.put("beside_yaml.py", "def loud(lines):\n    return lines.selectExpr('upper(value) AS word')\n")
    lines.run("""
        name: y
        sources:
          lines: {files: {path: input}}
        steps:
          loud: {python: "beside_yaml:loud", reads: [lines]}
          long: SELECT word FROM loud WHERE length(word) > 3
        sinks:
          out: {from: long, memory: {}}
        """)
    from_yaml = lines.rows("out")
    pipeline = load(lines.put("pipeline.py", PYTHON))

    assert check(pipeline) == []
    lines.run_once(prepare(pipeline, lambda _: None))

    assert lines.rows("out") == from_yaml == [("THREE",)]


@pytest.mark.parametrize(
    ("column", "says"),
    [
        ("word", "source 'rows' has its watermark on a string; declare 'word' as timestamp"),
        ("wrod", "source 'rows' has no column 'wrod' for its watermark; did you mean 'word'?"),
    ],
)
def test_a_watermark_on_a_column_that_holds_no_time_is_refused(project, refusal, column, says):
    project.put("input/a.json", '{"word": "one"}\n')

    said = refusal(
        project.run,
        f"""\
        name: p
        sources:
          rows:
            files: {{path: input, format: json, infer: true}}
            watermark: {{column: {column}, delay: 1 minute}}
        sinks:
          out: {{from: rows, memory: {{}}}}
        """,
    )

    assert said == f"{project.folder}/pipeline.yaml:3:3: {says}"
