"""Static tables, read again when they are due: a stale dimension is a known trap."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from penstock.connector import Versioned
from penstock.errors import PenstockError
from penstock.events import Emit
from penstock.model import Pipeline, Source
from penstock.options import seconds
from penstock.spark.errors import summary
from penstock.spark.internals import refresh_file_listings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_POLL_SECONDS = 1.0


class LoadedTable:
    """One static table: when it was read, and whether it is time to read it again."""

    def __init__(self, source: Source, rows: DataFrame, now: float) -> None:
        self.source, self._rows, self.read_at = source, rows, now
        self._version = self._look()

    def is_due(self, now: float) -> bool:
        """Whether the table has changed, or has become as old as the file allows."""
        if self.source.static == "never":
            return False
        if self.source.static != "on change":
            return now - self.read_at >= seconds(self.source.static)
        before, self._version = self._version, self._look()
        return before != self._version

    def refresh(self, now: float) -> None:
        """Drop the cache; the next batch reads the table again."""
        self._rows.unpersist(blocking=True)
        refresh_file_listings(self._rows)
        self._rows.persist()
        self.read_at = now

    def _look(self) -> object:
        connector = self.source.connector
        is_watched = self.source.static == "on change" and isinstance(connector, Versioned)
        return connector.version() if is_watched and isinstance(connector, Versioned) else None


def find_static_tables(pipeline: Pipeline, streams: Mapping[str, DataFrame]) -> list[LoadedTable]:
    """The static tables of a pipeline, as they are now; an error if one cannot tell whether it has changed."""
    now, tables = time.monotonic(), []
    for source in pipeline.sources:
        if source.static:
            try:
                tables.append(LoadedTable(source, streams[source.name], now))
            except PenstockError as error:
                raise error.add_place(f"{source.at}: source {source.name!r}") from error
    return tables


def keep_fresh(tables: Sequence[LoadedTable], running: Callable[[], bool], emit: Emit) -> None:
    """Watch the static tables for as long as queries are `running`; emits an event for each one that is read again."""
    if any(table.source.static != "never" for table in tables):
        threading.Thread(target=_watch, args=(tables, running, emit), name="static", daemon=True).start()


def _watch(tables: Sequence[LoadedTable], running: Callable[[], bool], emit: Emit) -> None:
    pause = threading.Event()
    failing: set[str] = set()
    while running():
        for table in tables:
            _look_at(table, failing, emit)
        pause.wait(_POLL_SECONDS)


def _look_at(table: LoadedTable, failing: set[str], emit: Emit) -> None:
    now, name = time.monotonic(), table.source.name
    try:
        if table.is_due(now):
            table.refresh(now)
            emit("refreshed", source=name)
        failing.discard(name)
    except Exception as error:
        # The cached rows still serve; a database that is down for a moment must not end the watch.
        if name not in failing:
            emit("stale", source=name, reason=summary(error))
        failing.add(name)
