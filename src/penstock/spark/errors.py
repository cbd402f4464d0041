"""Spark's errors in one sentence, and whether they are retryable."""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterator
from typing import Any

from penstock import errors

# From the first blank of a run on, and no further than a bracket: linear, whatever text a record has brought in.
_NOISE = re.compile(r"(?<!\s)\s*SQLSTATE: \w+|\[id = [^\[\]]*\]|(?<!\s)\s+at [\w.$/<>]+\([^()]*\)$", re.MULTILINE)
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9]*_[A-Z0-9_.]+)\] ")
_WRAPPERS = (
    "STREAM_FAILED",
    "USER_RAISED_EXCEPTION",
    "FAILED_EXECUTE_UDF",
    "TASK_WRITE_FAILED",
    "FOREACH_BATCH_USER_FUNCTION_ERROR",
    "FOREACH_USER_FUNCTION_ERROR",
)
_POSITION = re.compile(r"\(?line (\d+),? pos (\d+)\)?")
_CONTEXT = re.compile(r"== SQL[^\n]* \(line (\d+), position (\d+)\) ==\n([^\n]*)\n( *)(\^+)")
_CAUSED = re.compile(r"^Caused by: (?:[\w.$]+\.)?(\w+(?:Exception|Error)): (.+)$", re.MULTILINE)
_CALLED = re.compile(r"^: (?:[\w.$]+\.)?(\w+(?:Exception|Error))(?:: (.+))?$", re.MULTILINE)
_PYTHON = re.compile(r"^(\w[\w.]*(?:Error|Exception|Exit)): (.*)$", re.MULTILINE)
#: The exception that ends a traceback.
_RAISED = re.compile(r'^  File "[^\n]*\n(?:  [^\n]*\n)*([A-Za-z_][\w.]*)(?=:|$)', re.MULTILINE)
_PYTHON_LINE = re.compile(r'File "([^"]+)", line (\d+), in (\w+)')


def summary(error: BaseException | str) -> str:
    """What went wrong in Spark, in one line: no Java, no plans, no query ids."""
    text = error if isinstance(error, str) else str(error)
    # With its brackets: a plan that Spark prints names the same condition without them.
    if "[USER_RAISED_EXCEPTION]" in text:
        return _one_line(text.split("[USER_RAISED_EXCEPTION]", 1)[1])
    # A Python function that called Spark, and Spark failed: Java has the reason.
    inside_java = "Py4JJavaError" in text
    if "Traceback (most recent call last)" in text and not inside_java:
        return _python(text)
    conditions = [match for match in _CONDITION.finditer(text) if match.group(1) not in _WRAPPERS]
    # That a Python function raised is said around the reason, not by it.
    caused = [(kind, says) for kind, says in _CAUSED.findall(text) if "Python Proxy" not in says]
    if conditions:
        # Some of Spark's sentences say that something failed, and only their cause says what.
        cause = caused[-1][1] if caused and conditions[-1].group(1).endswith(".NO_HINT") else ""
        return _one_line(text[conditions[-1].start() :]) + (f" {_one_line(cause)}" if cause else "")
    if caused:
        return _one_line(caused[-1][1])
    called = _CALLED.findall(text) if inside_java else []
    if called:
        kind, says = called[-1]
        return _one_line(says or kind)
    return _one_line(text)


def error_class(error: BaseException | str) -> str:
    """Spark's name for the innermost error, like `UNRESOLVED_COLUMN.WITH_SUGGESTION`; empty if it has none."""
    names = [match.group(1) for match in _CONDITION.finditer(str(error))]
    inner = [name for name in names if name not in _WRAPPERS] or [name for name in names if name != "STREAM_FAILED"]
    return inner[-1] if inner else ""


def find_offset(text: str, error: BaseException) -> int | None:
    """Where in a SQL text the cause of an error is; None if Spark does not say it."""
    match = _POSITION.search(str(error))
    return _offset(text, int(match[1]), int(match[2])) if match else None


def find_context(text: str, error: BaseException) -> int | None:
    """Where a SQL text has the expression that failed while a query ran; None if it is not one of this text."""
    match = _CONTEXT.search(str(error))
    if match is None:
        return None
    offset = _offset(text, int(match[1]), int(match[2]) - 1)
    shown = match[3][match.end(4) - match.start(4) :][: len(match[5])]
    return offset if shown and text.startswith(shown, offset) else None


def _offset(text: str, line: int, column: int) -> int:
    """The offset of a place as ANTLR counts: lines, which only line feeds end, from 1, characters from 0."""
    lines = text.split("\n")
    before, last = lines[: line - 1], lines[min(line, len(lines)) - 1]
    return min(sum(len(each) + 1 for each in before) + min(column, len(last)), len(text))


def _python(text: str) -> str:
    raised = _PYTHON.findall(text)
    if raised and raised[-1][0].startswith("penstock."):
        return _one_line(raised[-1][1])
    places = [place for place in _PYTHON_LINE.findall(text) if "pyspark" not in place[0]]
    what = f"{raised[-1][0].split('.')[-1]}: {raised[-1][1]}" if raised else "a Python function raised"
    where = f" ({places[-1][0].split('/')[-1]}:{places[-1][1]} in {places[-1][2]})" if places else ""
    return _one_line(what + where)


def _one_line(text: str) -> str:
    first = _NOISE.sub("", text.strip()).split("\n\n")[0].splitlines()
    line = next((part.strip() for part in first if part.strip()), "no reason given")
    line = _POSITION.sub("", line).rstrip("; ")
    # What a stream carries is not ours to trust: no control characters on a terminal.
    return "".join(char if char.isprintable() else " " for char in line)


#: The data, the query or the checkpoint is at fault: the same batch would fail in the same way.
_PERMANENT = (
    # the query does not fit the data or itself
    "UNRESOLVED_",
    "PARSE_",
    "DATATYPE_MISMATCH",
    "DATA_TYPE_MISMATCH",
    "AMBIGUOUS_",
    "INVALID_",
    "UNSUPPORTED_",
    "MISSING_AGGREGATION",
    "MISSING_GROUP_BY",
    "STREAMING_OUTPUT_MODE",
    "TABLE_OR_VIEW_NOT_FOUND",
    "PATH_NOT_FOUND",
    "COLUMN_NOT_FOUND",
    "FIELD_NOT_FOUND",
    "INCOMPATIBLE_",
    "CANNOT_UP_CAST_DATATYPE",
    "WRITE_STREAM_NOT_ALLOWED",
    # a value in the batch: it will be there again (ANSI mode is Spark's default)
    "USER_RAISED_EXCEPTION",
    "CAST_",
    "CANNOT_PARSE_",
    "DIVIDE_BY_ZERO",
    "REMAINDER_BY_ZERO",
    "ARITHMETIC_OVERFLOW",
    "BINARY_ARITHMETIC_OVERFLOW",
    "NUMERIC_VALUE_OUT_OF_RANGE",
    "MALFORMED_",
    "NOT_NULL_ASSERT_VIOLATION",
    "NULL_",
    # state and checkpoint that do not fit the query
    "STATE_STORE_",
    "CANNOT_LOAD_STATE_STORE",
    "STREAMING_STATEFUL_",
    "STREAMING_CHECKPOINT_",
    "STREAMING_QUERY_EVOLUTION_ERROR",
    "STREAM_STREAM_JOIN_INCONSISTENT_STATE",
    "STDS_",
    "CHECKPOINT_FILE_CHECKSUM_VERIFICATION_FAILED",
    "CONCURRENT_STREAM_LOG_UPDATE",
    # records that are gone
    "KAFKA_DATA_LOSS",
)

#: Errors of Kafka's clients and of Java that no retry fixes: credentials, rights, certificates, values.
_PERMANENT_CLASSES = re.compile(
    r"\b(SaslAuthenticationException|SslAuthenticationException|AuthenticationException|SSLHandshakeException"
    r"|(?:Topic|Group|Cluster|TransactionalId)AuthorizationException|RecordTooLargeException"
    r"|UnsupportedVersionException|ProducerFencedException|AccessControlException|AccessDeniedException"
    r"|\w*SQLIntegrityConstraintViolationException|SQLDataException"
    r"|MSG_SIZE_TOO_LARGE|Message size too large)\b"
)

#: Classes of SQLSTATE: data that does not fit a column, and violated constraints.
_PERMANENT_STATES = ("22", "23")

#: Exceptions of Python libraries that are no OSError and say by their names that a system did not answer.
_TRANSIENT_NAME = re.compile(
    r"Connect|Time_?d?[Oo]ut|timeout|Unavailable|Unreachable|NoHost|Overloaded|Bootstrapping|Operational|Interface"
    r"|Network|Transport|Throttl|TooMany|Temporar|Failure|Kafka|HTTP|URL|SSL|[Ss]ocket|gaierror|ServerError"
)
_TRANSIENT_KINDS = (OSError, EOFError, MemoryError)


def is_retryable(error_class: str, text: str) -> bool:
    """Whether trying again can help, by Spark's condition and the names of exceptions in its text."""
    if error_class.startswith(_PERMANENT) or _PERMANENT_CLASSES.search(text):
        return False
    # A Python function that called Spark, and Spark failed: Java has the reason.
    raised = [] if "Py4JJavaError" in text else _RAISED.findall(text)
    return not raised or any(map(_is_transient_name, raised))


def is_retryable_error(error: BaseException) -> bool:
    """Whether trying again can help: our errors say so, others are known by name.

    A Python function raises again for the same rows, unless it is about a system that did not answer.
    """
    if isinstance(error, errors.PenstockError):
        return error.retry
    chain, text = list(_chain(error)), str(error)
    if _PERMANENT_CLASSES.search(text) or any(_sql_state(each).startswith(_PERMANENT_STATES) for each in chain):
        return False
    if type(error).__module__.startswith(("pyspark.", "py4j.")):
        return is_retryable(error_class(text), text)
    return any(_is_transient_name(kind.__name__) for each in chain for kind in type(each).__mro__)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An exception and those that it was raised from."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _is_transient_name(name: str) -> bool:
    package, _, short = name.rpartition(".")
    if package == errors.__name__:
        # An error of ours in a Python worker; a RunError is retryable or not by its instance, which is not here.
        return short == errors.RunError.__name__ or bool(getattr(getattr(errors, short, None), "retry", True))
    kind = getattr(builtins, short, None)
    is_transient = isinstance(kind, type) and issubclass(kind, _TRANSIENT_KINDS)
    return is_transient or bool(_TRANSIENT_NAME.search(short))


def _sql_state(error: BaseException) -> str:
    """The SQLSTATE of a database's refusal somewhere below a Java error; empty if there is none."""
    from penstock.spark.internals import active_jvm, is_java_object

    cause: Any = getattr(error, "java_exception", None)
    while is_java_object(cause):
        if active_jvm().py4j.reflection.TypeUtil.isInstanceOf("java.sql.SQLException", cause):
            return str(cause.getSQLState() or "")
        cause = cause.getCause()
    return ""


#: While a query is built and started nothing was read yet: what Spark refuses there it refuses again, but for these.
_PASSING = re.compile(
    r"No space left on device"
    r"|\b(?:IOException|OSError|TimeoutException|ConnectException|SocketException|OutOfMemoryError)\b"
)


def is_transient_at_start(error_class: str, text: str) -> bool:
    """Whether a refusal at the start may be gone the next time: a full disk, a system that does not answer."""
    return bool(_PASSING.search(text)) and is_retryable(error_class, text)
