"""Statements for single keys, run in Spark's Python workers; pickled by value, so workers need only the driver.

One session per worker, for its lifetime; each statement is prepared once; `concurrency` requests are in flight.
"""

from __future__ import annotations

import sys
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock import cql
from penstock.connector import LookupRequest
from penstock.connectors.cassandra._table import Access, Table, require_readable
from penstock.cql import connect
from penstock.errors import BuildError
from penstock.options import quote
from penstock.spark import column
from penstock.text import did_you_mean

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


_STATE = "_penstock_cassandra"
_RETRY_FOR_SECONDS = 60.0
_RETRY_SECONDS = 1.0
_CHUNK = 5000
_MAX_CACHED = 200_000


@dataclass(frozen=True)
class Statement:
    """A statement to prepare: the cluster, the text, and the CQL types of its parameters."""

    hosts: str
    user: str
    password: str
    consistency: str
    text: str
    kinds: tuple[str, ...]
    concurrency: int = 64


def build_statement(access: Any, text: str, kinds: tuple[str, ...], concurrency: int = 64) -> Statement:
    """A statement that a worker can run without Penstock installed there."""
    from pyspark import cloudpickle

    for name in (__name__, connect.__module__):
        cloudpickle.register_pickle_by_value(sys.modules[name])  # type: ignore[no-untyped-call]
    return Statement(access.hosts, access.user, access.password, access.consistency, text, kinds, concurrency)


def run(statement: Statement, rows: Iterable[Sequence[Any]]) -> None:
    """Execute it for every row."""
    chunk: list[tuple[Any, ...]] = []
    for row in rows:
        chunk.append(tuple(bind_value(value, kind) for value, kind in zip(row, statement.kinds, strict=True)))
        if len(chunk) == _CHUNK:
            _execute(statement, chunk)
            chunk = []
    if chunk:
        _execute(statement, chunk)


@dataclass(frozen=True)
class KeyReader:
    """Reads rows of a table by key; each key once, and cached for a while."""

    statement: Statement
    columns: tuple[str, ...]
    type: pa.DataType
    """A list of structs: the rows of one key."""
    cache_seconds: float = 0.0

    def __call__(self, batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        """For each array of keys (structs), the rows of each key."""
        for batch in batches:
            keys = [self._bind_key(key) for key in batch.to_pylist()]
            found = self._rows({key for key in keys if key is not None})
            yield pa.array([found[key] if key is not None else [] for key in keys], self.type)

    def _bind_key(self, key: dict[str, Any]) -> tuple[Any, ...] | None:
        values = tuple(bind_value(value, kind) for value, kind in zip(key.values(), self.statement.kinds, strict=True))
        # As in a join, null matches nothing; neither does text that is not a UUID.
        return None if None in values else values

    def _rows(self, keys: set[tuple[Any, ...]]) -> dict[tuple[Any, ...], list[dict[str, Any]]]:
        cache: OrderedDict[Any, Any] = _state("cache").setdefault((self.statement, self.columns), OrderedDict())
        now = time.monotonic()
        found = {key: cache[key][1] for key in keys if key in cache and cache[key][0] > now}
        missing = [key for key in keys if key not in found]
        for key, rows in zip(missing, _execute(self.statement, missing), strict=True):
            found[key] = [self._row_to_arrow(row) for row in rows]
            if self.cache_seconds:
                cache[key] = (now + self.cache_seconds, found[key])
                cache.move_to_end(key)
        while len(cache) > _MAX_CACHED:
            cache.popitem(last=False)
        return found

    def _row_to_arrow(self, row: Any) -> dict[str, Any]:
        kinds = self.type.value_type
        return {name: to_arrow(value, kinds.field(name).type) for name, value in zip(self.columns, row, strict=True)}


def bind_value(value: Any, kind: str) -> Any:
    """A Spark value as the driver takes it for a CQL type; None if it cannot equal any value of that type."""
    if value is None:
        return None
    if kind in ("uuid", "timeuuid"):
        from uuid import UUID

        try:
            return UUID(value)
        except ValueError:
            return None
    return int(value) if kind == "varint" else value


def to_arrow(value: Any, kind: pa.DataType) -> Any:
    """A value of the driver as Arrow takes it for a type."""
    from datetime import datetime, timezone
    from decimal import Decimal

    if value is None:
        return None
    if pa.types.is_list(kind):
        return [to_arrow(each, kind.value_type) for each in value]
    if pa.types.is_map(kind):
        return [(to_arrow(key, kind.key_type), to_arrow(each, kind.item_type)) for key, each in value.items()]
    if pa.types.is_decimal(kind):
        return Decimal(value).quantize(Decimal(1).scaleb(-kind.scale))
    if isinstance(value, datetime):
        return value.replace(tzinfo=timezone.utc)
    if pa.types.is_date(kind):
        return value.date()
    if pa.types.is_integer(kind):
        return getattr(value, "nanosecond_time", value)
    return str(value) if pa.types.is_string(kind) else value


def _execute(statement: Statement, keys: Sequence[tuple[Any, ...]]) -> list[Any]:
    """The results in the order of the keys; retries for a while when nodes are unavailable."""
    from cassandra import OperationTimedOut, RequestExecutionException
    from cassandra.cluster import NoHostAvailable
    from cassandra.concurrent import execute_concurrent_with_args

    results: dict[int, Any] = {}
    pending = list(range(len(keys)))
    deadline = time.monotonic() + _RETRY_FOR_SECONDS
    while pending:
        try:
            session, prepared = _prepare(statement)
            parameters = [keys[number] for number in pending]
            answers = execute_concurrent_with_args(
                session, prepared, parameters, concurrency=statement.concurrency, raise_on_first_error=False
            )
            failures = [answer.result_or_exc for answer in answers if not answer.success]
        except NoHostAvailable as error:
            answers, failures = [], [error]
        for number, answer in zip(pending, answers, strict=False):
            if answer.success:
                results[number] = list(answer.result_or_exc)
        pending = [number for number in pending if number not in results]
        for failure in failures:
            transient = isinstance(failure, NoHostAvailable | OperationTimedOut | RequestExecutionException)
            if not transient or time.monotonic() > deadline:
                raise failure
        if pending:
            time.sleep(_RETRY_SECONDS)
    return [results[number] for number in range(len(keys))]


def _prepare(statement: Statement) -> tuple[Any, Any]:
    sessions = _state("sessions")
    access = (statement.hosts, statement.user, statement.password, statement.consistency)
    if access not in sessions:
        sessions[access] = connect(*access)
    statements = _state("prepared")
    if (access, statement.text) not in statements:
        prepared = sessions[access].prepare(statement.text)
        prepared.is_idempotent = True
        statements[access, statement.text] = prepared
    return sessions[access], statements[access, statement.text]


def _state(name: str) -> dict[Any, Any]:
    """State of this worker that outlives a batch; module globals do not, as code pickled by value is loaded again."""
    module = sys.modules.setdefault(_STATE, ModuleType(_STATE))
    found: dict[Any, Any] = module.__dict__.setdefault(name, {})
    return found


def to_udf(reader: KeyReader) -> Any:
    """The reader as a function with the type hints that Spark's UDFs need."""

    def look_up(keys: Iterator[pa.Array]) -> Iterator[pa.Array]:
        return reader(keys)

    look_up.__annotations__ = {"keys": Iterator[pa.Array], "return": Iterator[pa.Array]}
    return look_up


_FOUND = "_penstock_found"


def join_by_key(rows: DataFrame, access: Access, table: Table, schema: str | None, lookup: LookupRequest) -> DataFrame:
    """The rows with the requested columns; a row without a match is dropped or has nulls."""
    from pyspark.sql import functions as F  # noqa: N812

    declared = _columns(table, schema)
    _require_key(rows, table, lookup)
    added = _added_columns(table, declared, lookup)
    found = _reader(rows, access, table, added, lookup)
    keys = F.struct(*(column(ours).alias(theirs) for ours, theirs in lookup.on.items()))
    rows = rows.withColumn(_FOUND, found(keys))
    own = [column(name) for name in rows.columns if name != _FOUND]
    spread = F.inline if lookup.kind == "inner" else F.inline_outer
    return rows.select(*own, spread(_FOUND))


def _reader(rows: DataFrame, access: Access, table: Table, added: StructType, lookup: LookupRequest) -> Any:
    """A UDF from a column of keys to the rows of each key."""
    from pyspark.sql.pandas.functions import arrow_udf
    from pyspark.sql.pandas.types import to_arrow_type
    from pyspark.sql.types import ArrayType

    from penstock.connectors.cassandra import _keys as cassandra_keys

    keyspace, _, name = table.name.partition(".")
    names = [lookup.columns.get(field.name, field.name) for field in added]
    columns = ", ".join(cql.quote(each) for each in names)
    where = " AND ".join(f"{cql.quote(theirs)} = ?" for theirs in lookup.on.values())
    text = f"SELECT {columns} FROM {cql.quote(keyspace)}.{cql.quote(name)} WHERE {where}"  # noqa: S608
    kinds = tuple(table.type(theirs).name for theirs in lookup.on.values())
    statement = cassandra_keys.build_statement(access, text, kinds, lookup.concurrency)
    kind = ArrayType(added)
    zone = rows.sparkSession.conf.get("spark.sql.session.timeZone")
    arrow = to_arrow_type(kind, timezone=zone)
    reader = cassandra_keys.KeyReader(statement, tuple(added.names), arrow, lookup.cache_seconds)
    make: Any = arrow_udf
    function = make(cassandra_keys.to_udf(reader), returnType=kind)
    # The table may change: Spark must not call it twice, nor before filters.
    return function.asNondeterministic()


def _columns(table: Table, schema: str | None) -> StructType:
    from pyspark.sql.types import StructType

    if schema is not None:
        declared: Any = StructType.fromDDL(schema)
        require_readable(table, declared)
        return declared  # type: ignore[no-any-return]
    made: Any = StructType.fromDDL(", ".join(f"{quote(name)} {table.type(name).spark}" for name in table.readable))
    return made  # type: ignore[no-any-return]


def _added_columns(table: Table, declared: StructType, lookup: LookupRequest) -> StructType:
    """The columns to add to the rows, with their new names."""
    from pyspark.sql.types import StructField, StructType

    columns = lookup.columns or {name: name for name in declared.names if name not in lookup.on.values()}
    unknown = [theirs for theirs in columns.values() if theirs not in declared.names]
    if unknown:
        raise BuildError(
            f"table {table.name} has no column {unknown[0]!r} to add; {did_you_mean(unknown[0], declared.names)}"
        )
    if not columns:
        raise BuildError(f"table {table.name} has nothing to add besides its key; name 'columns'")
    return StructType([StructField(ours, declared[theirs].dataType) for ours, theirs in columns.items()])


def _require_key(rows: DataFrame, table: Table, lookup: LookupRequest) -> None:
    theirs = list(lookup.on.values())
    first = table.key[: max(len(theirs), len(table.partition_key))]
    if set(theirs) != set(first):
        key = ", ".join(table.key)
        fix = f"use its partition key ({', '.join(table.partition_key)}), then more of the key from the left"
        raise BuildError(f"'on' is {', '.join(theirs)}, and rows of {table.name} are found by ({key}); {fix}")
    for ours, name in lookup.on.items():
        kind = rows.schema[ours].dataType
        if not table.type(name).takes(kind):
            says = f"{ours!r} is {kind.simpleString()}, and {name!r} of {table.name} is {table.columns[name]}"
            raise BuildError(f"{says}; write CAST({ours} AS {table.type(name).spark}) AS {ours}")
