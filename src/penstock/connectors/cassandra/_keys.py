"""Statements for single keys, run from Spark's Python workers; sent there by value, so they need only the driver.

worker ── one session for as long as the worker lives ── prepared once ── so many requests under way at a time
"""

from __future__ import annotations

import sys
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pyarrow as pa

from penstock.cql import connect

_STATE = "_penstock_cassandra"
_PATIENCE_SECONDS = 60.0
_PAUSE_SECONDS = 1.0
_CHUNK = 5000
_MOST_CACHED = 200_000


@dataclass(frozen=True)
class Statement:
    """A prepared statement to be: where, what, and the CQL types of what is bound to it."""

    hosts: str
    user: str
    password: str
    consistency: str
    text: str
    kinds: tuple[str, ...]
    concurrency: int = 64


def shipped(access: Any, text: str, kinds: tuple[str, ...], concurrency: int = 64) -> Statement:
    """A statement that a worker can run without Penstock installed there."""
    from pyspark import cloudpickle

    for name in (__name__, connect.__module__):
        cloudpickle.register_pickle_by_value(sys.modules[name])  # type: ignore[no-untyped-call]
    return Statement(access.hosts, access.user, access.password, access.consistency, text, kinds, concurrency)


def run(statement: Statement, rows: Iterable[Sequence[Any]]) -> None:
    """Execute it for every row."""
    chunk: list[tuple[Any, ...]] = []
    for row in rows:
        chunk.append(tuple(bound(value, kind) for value, kind in zip(row, statement.kinds, strict=True)))
        if len(chunk) == _CHUNK:
            _execute(statement, chunk)
            chunk = []
    if chunk:
        _execute(statement, chunk)


@dataclass(frozen=True)
class Reading:
    """Rows of a table by key: asked once for each key, remembered for a while."""

    statement: Statement
    columns: tuple[str, ...]
    type: pa.DataType
    """A list of structs: the rows of one key."""
    cache_seconds: float = 0.0

    def __call__(self, batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        """For each array of keys, which are structs, the rows of each."""
        for batch in batches:
            keys = [self._bound(key) for key in batch.to_pylist()]
            found = self._rows({key for key in keys if key is not None})
            yield pa.array([found[key] if key is not None else [] for key in keys], self.type)

    def _bound(self, key: dict[str, Any]) -> tuple[Any, ...] | None:
        values = tuple(bound(value, kind) for value, kind in zip(key.values(), self.statement.kinds, strict=True))
        # As in a join: no row equals null. A text that is no UUID equals none either.
        return None if None in values else values

    def _rows(self, keys: set[tuple[Any, ...]]) -> dict[tuple[Any, ...], list[dict[str, Any]]]:
        kept: OrderedDict[Any, Any] = _state("cache").setdefault((self.statement, self.columns), OrderedDict())
        now = time.monotonic()
        found = {key: kept[key][1] for key in keys if key in kept and kept[key][0] > now}
        asked = [key for key in keys if key not in found]
        for key, rows in zip(asked, _execute(self.statement, asked), strict=True):
            found[key] = [self._plain(row) for row in rows]
            if self.cache_seconds:
                kept[key] = (now + self.cache_seconds, found[key])
                kept.move_to_end(key)
        while len(kept) > _MOST_CACHED:
            kept.popitem(last=False)
        return found

    def _plain(self, row: Any) -> dict[str, Any]:
        kinds = self.type.value_type
        return {name: plain(value, kinds.field(name).type) for name, value in zip(self.columns, row, strict=True)}


def bound(value: Any, kind: str) -> Any:
    """A value of Spark as the driver takes it for a CQL type; None if no value of that type can equal it."""
    if value is None:
        return None
    if kind in ("uuid", "timeuuid"):
        from uuid import UUID

        try:
            return UUID(value)
        except ValueError:
            return None
    return int(value) if kind == "varint" else value


def plain(value: Any, kind: pa.DataType) -> Any:
    """A value of the driver as Arrow takes it for a type."""
    from datetime import datetime, timezone
    from decimal import Decimal

    if value is None:
        return None
    if pa.types.is_list(kind):
        return [plain(each, kind.value_type) for each in value]
    if pa.types.is_map(kind):
        return [(plain(key, kind.key_type), plain(each, kind.item_type)) for key, each in value.items()]
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
    """The results in the order of the keys; what failed because nodes were away is asked again for a while."""
    from cassandra import OperationTimedOut, RequestExecutionException
    from cassandra.cluster import NoHostAvailable
    from cassandra.concurrent import execute_concurrent_with_args

    results: dict[int, Any] = {}
    waiting = list(range(len(keys)))
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while waiting:
        try:
            session, prepared = _prepared(statement)
            asked = [keys[number] for number in waiting]
            answers = execute_concurrent_with_args(
                session, prepared, asked, concurrency=statement.concurrency, raise_on_first_error=False
            )
            failures = [answer.result_or_exc for answer in answers if not answer.success]
        except NoHostAvailable as error:
            answers, failures = [], [error]
        for number, answer in zip(waiting, answers, strict=False):
            if answer.success:
                results[number] = list(answer.result_or_exc)
        waiting = [number for number in waiting if number not in results]
        for failure in failures:
            away = isinstance(failure, NoHostAvailable | OperationTimedOut | RequestExecutionException)
            if not away or time.monotonic() > deadline:
                raise failure
        if waiting:
            time.sleep(_PAUSE_SECONDS)
    return [results[number] for number in range(len(keys))]


def _prepared(statement: Statement) -> tuple[Any, Any]:
    kept = _state("sessions")
    who = (statement.hosts, statement.user, statement.password, statement.consistency)
    if who not in kept:
        kept[who] = connect(*who)
    texts = _state("prepared")
    if (who, statement.text) not in texts:
        prepared = kept[who].prepare(statement.text)
        prepared.is_idempotent = True
        texts[who, statement.text] = prepared
    return kept[who], texts[who, statement.text]


def _state(name: str) -> dict[Any, Any]:
    """Something of this worker that outlives a batch: code that is sent by value is new every time."""
    module = sys.modules.setdefault(_STATE, ModuleType(_STATE))
    found: dict[Any, Any] = module.__dict__.setdefault(name, {})
    return found


def as_function(reading: Reading) -> Any:
    """The reading as Spark wants a function: with types in its signature."""

    def look_up(keys: Iterator[pa.Array]) -> Iterator[pa.Array]:
        return reading(keys)

    look_up.__annotations__ = {"keys": Iterator[pa.Array], "return": Iterator[pa.Array]}
    return look_up
