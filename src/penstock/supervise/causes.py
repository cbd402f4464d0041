"""Whether trying again can help, by the kind of error: the one table.

Our own errors carry it (`retry`). Spark's have a condition, like `UNRESOLVED_COLUMN.WITH_SUGGESTION`: those below are
permanent, by the condition itself or by the beginning of its name. What is in no table is tried again, and the limit
of restarts ends what does not get better.
"""

from __future__ import annotations

import re

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

#: Exceptions of Kafka's client and of Java that no retry mends: credentials, rights, certificates.
_PERMANENT_CLASSES = re.compile(
    r"\b(SaslAuthenticationException|SslAuthenticationException|AuthenticationException|SSLHandshakeException"
    r"|(?:Topic|Group|Cluster|TransactionalId)AuthorizationException|RecordTooLargeException"
    r"|UnsupportedVersionException|ProducerFencedException|AccessControlException|AccessDeniedException)\b"
)


def can_help(condition: str, text: str) -> bool:
    """Whether trying again can help, by Spark's condition and the names of exceptions in its text."""
    if condition.startswith(_PERMANENT):
        return False
    return not _PERMANENT_CLASSES.search(text)


#: While a query is built and started nothing was read yet: what Spark refuses there it refuses again, but for these.
_PASSING = re.compile(
    r"No space left on device"
    r"|\b(?:IOException|OSError|TimeoutException|ConnectException|SocketException|OutOfMemoryError)\b"
)


def may_pass(condition: str, text: str) -> bool:
    """Whether a refusal at the start may be gone the next time: a full disk, a system that does not answer."""
    return bool(_PASSING.search(text)) and can_help(condition, text)
