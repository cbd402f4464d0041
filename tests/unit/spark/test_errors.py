from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from penstock.errors import RefusedError, RunError, UnreachableError
from penstock.spark.errors import error_class, find_context, find_offset, is_retryable, is_retryable_error, summary

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


def test_the_place_inside_a_query_is_found():
    text = "SELECT 😀\r\nFROM a\nWHERE x"

    found = find_offset(text, Exception("[PARSE_SYNTAX_ERROR] near 'x'. (line 3, pos 6)"))
    second = find_offset(text, Exception("cannot be resolved; line 2 pos 5;"))

    assert (found, second) == (text.index("x"), text.index("a"))
    assert find_offset(text, Exception("no place")) is None
    assert find_offset(text, Exception("line 9, pos 99")) == len(text)


def test_the_expression_that_failed_while_a_query_ran_is_found_in_its_text_only():
    error = Exception(
        "[STREAM_FAILED] x [DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012\n"
        "== SQL (line 2, position 3) ==\n  1 / n AS x FROM a\n  ^^^^^\n"
    )

    assert find_context("SELECT b,\n  1 / n AS x FROM a", error) == 12
    assert find_context("SELECT b,\n  1 / m AS x FROM a", error) is None
    assert find_context("SELECT 1", error) is None
    assert find_context("SELECT 1", Exception("no place")) is None


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


def traceback_of(last: str) -> str:
    return (
        "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n"
        f'  File "/home/me/model.py", line 12, in score\n    call()\n    ^^^^^^\n{last}\n.'
    )


@pytest.mark.parametrize(
    ("last", "retry"),
    [
        ("ValueError: bad", False),
        ("KeyError: 'a'", False),
        ("AssertionError", False),
        ("model.BadRow: no", False),
        ("Exception: ConnectionError: in the message only", False),
        ("ConnectionRefusedError: [Errno 111] Connection refused", True),
        ("FileNotFoundError: [Errno 2] No such file", True),
        ("requests.exceptions.ReadTimeout: slow", True),
        ("cassandra.OperationTimedOut: errors={}", True),
        ("cassandra.cluster.NoHostAvailable: ('Unable to connect', {})", True),
        ("psycopg2.OperationalError: server closed the connection unexpectedly", True),
        ("penstock.errors.UnreachableError: no answer", True),
        ("penstock.errors.RefusedError: wrong password", False),
        ("penstock.errors.RunError: Kafka did not accept a batch: timed out", True),
        ("penstock.errors.RunError: Kafka did not accept a batch: Broker: Message size too large", False),
    ],
)
def test_an_exception_of_a_python_worker_is_retryable_by_its_kind(last: str, retry: bool):
    assert is_retryable("", traceback_of(last)) == retry


class LostError(ConnectionError):
    pass


def raised(error: Exception, cause: Exception | None = None) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "retry"),
    [
        (RefusedError("no"), False),
        (UnreachableError("no"), True),
        (RunError("no", retry=True), True),
        (KeyError("a"), False),
        (LostError("x"), True),
        (OSError(28, "No space left on device"), True),
        (raised(RuntimeError("step failed"), LostError("x")), True),
        (raised(RuntimeError("step failed"), KeyError("x")), False),
        (KafkaException(KafkaError(KafkaError._TRANSPORT)), True),
        (KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)), False),
    ],
)
def test_an_exception_in_the_driver_is_retryable_by_its_kind(error: Exception, retry: bool):
    assert is_retryable_error(error) == retry


def test_a_violated_constraint_is_not_retryable():
    text = "Caused by: java.sql.SQLIntegrityConstraintViolationException: Duplicate entry '1' for key 'PRIMARY'"

    assert not is_retryable("", text)


@pytest.mark.parametrize("part", [" ", "[id = ", " at a(", "\n", '  File "'])
def test_a_large_text_of_a_record_is_summed_up_at_once(part: str):
    text = part * 200_000

    assert summary(f"[CAST_INVALID_INPUT] The value '{text}' cannot be cast.").startswith("[CAST_INVALID_INPUT]")
    assert is_retryable("", text)
