from __future__ import annotations

import pytest

from penstock.spark.errors import error_class, position, summary

CASES = {
    "a refused column": (
        "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `tme` cannot be resolved. "
        "SQLSTATE: 42703; line 2 pos 7;\n'Project ['tme]\n+- SubqueryAlias a\n",
        "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `tme` cannot be resolved.",
    ),
    "our own words from inside a task": (
        "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted due to stage failure: Task 0 "
        "in stage 1.0: org.apache.spark.SparkRuntimeException: [USER_RAISED_EXCEPTION] source 'a': the record at "
        "topic t is not json; correct it SQLSTATE: P0001\n\tat org.apache.spark.sql.Errors.raise(Errors.scala:3)\n",
        "source 'a': the record at topic t is not json; correct it",
    ),
    "a Python function": (
        'Job aborted: Traceback (most recent call last):\n  File "/x/pyspark/worker.py", line 3, in main\n'
        '  File "/home/me/model.py", line 12, in score\n    1 / 0\n'
        "ZeroDivisionError: division by zero\n\n\tat org.x.Y(Z)\n",
        "ZeroDivisionError: division by zero (model.py:12 in score)",
    ),
    "a cause without a name of Spark's": (
        "boom\nCaused by: java.net.ConnectException: Connection refused\n\tat java.base/x(Y)\n",
        "Connection refused",
    ),
    "a plan that names our guard": (
        "[STREAM_FAILED] Query terminated: [DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012\n"
        "== Plan ==\nProject [raise_error(USER_RAISED_EXCEPTION, map(errorMessage, x))]",
        "[DIVIDE_BY_ZERO] Division by zero.",
    ),
    "a sentence that leaves the cause out": (
        "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file a.avro. SQLSTATE: KD001\n"
        "Caused by: org.apache.spark.Foo: x\nCaused by: java.io.SomeException: id is a string\n",
        "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file a.avro. id is a string",
    ),
    "a call with no arguments": ("[A_B] step() takes 0 arguments", "[A_B] step() takes 0 arguments"),
    "control characters of a record": ("[A_B] bad \x1b[31m\x00 value", "[A_B] bad  [31m  value"),
    "nothing": ("", "no reason given"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_failure_of_spark_becomes_one_line(case: str):
    failure, expected = CASES[case]

    assert summary(failure) == expected


def test_the_condition_is_the_innermost_one():
    assert (
        error_class("[STREAM_FAILED] x [KAFKA_DATA_LOSS.START_OFFSET_RESET] y") == "KAFKA_DATA_LOSS.START_OFFSET_RESET"
    )
    assert error_class("[STREAM_FAILED] x [USER_RAISED_EXCEPTION] y") == "USER_RAISED_EXCEPTION"
    assert error_class("Connection refused") == ""


def test_the_line_inside_a_query_is_found():
    assert position(Exception("[PARSE_SYNTAX_ERROR] near 'x'. (line 3, pos 4)")) == 3
    assert position(Exception("cannot be resolved; line 2 pos 7;")) == 2
    assert position(Exception("no place")) is None


def test_java_that_failed_inside_a_python_function_is_the_reason():
    text = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: see below
=== Streaming Query ===
org.apache.spark.sql.streaming.StreamingQueryException: ...
Caused by: py4j.Py4JException: An exception was raised by the Python Proxy. Return Message: Traceback (most recent call)
  File "fan_out.py", line 74, in _write
    target.connector.write_batch(rows, batch)
py4j.protocol.Py4JJavaError: An error occurred while calling o93.save.
: com.datastax.oss.driver.api.core.AllNodesFailedException: Could not reach any contact point
\tat com.datastax.oss.driver.Session.init(Session.java:1)
"""

    assert summary(text) == "Could not reach any contact point"
