"""Tables beside the streams, read again when they are due: a stale dimension is a known trap."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penstock.errors import PenstockError
from penstock.model import Pipeline, Source
from penstock.options import seconds
from penstock.spark.errors import summary

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LOOK_SECONDS = 1.0

Tell = Callable[..., None]
"""Takes a fact for the event log: `tell("refreshed", source="users")`."""


class StaticTable:
    """One table beside the streams: when it was read, and whether it is time to read it again."""

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
        """Forget what was kept; the next batch reads the table as it is then."""
        self._rows.unpersist(blocking=True)
        for relation in _file_relations(self._rows):
            # Spark remembers which files there were.
            relation.location().refresh()
        self._rows.persist()
        self.read_at = now

    def _look(self) -> object:
        return self.source.connector.version() if self.source.static == "on change" else None


def static_tables(pipeline: Pipeline, streams: Mapping[str, DataFrame]) -> list[StaticTable]:
    """The tables beside the streams, as they are now; an error if one cannot tell what is asked of it."""
    now, tables = time.monotonic(), []
    for source in pipeline.sources:
        if source.static:
            try:
                tables.append(StaticTable(source, streams[source.name], now))
            except PenstockError as error:
                raise error.placed(f"{source.at}: source {source.name!r}") from error
    return tables


def keep_fresh(tables: Sequence[StaticTable], running: Callable[[], bool], tell: Tell) -> None:
    """Watch the static tables for as long as queries are `running`; tells of each one that is read again."""
    if any(table.source.static != "never" for table in tables):
        threading.Thread(target=_watch, args=(tables, running, tell), name="static", daemon=True).start()


def _watch(tables: Sequence[StaticTable], running: Callable[[], bool], tell: Tell) -> None:
    pause = threading.Event()
    failing: set[str] = set()
    while running():
        for table in tables:
            _look_at(table, failing, tell)
        pause.wait(_LOOK_SECONDS)


def _look_at(table: StaticTable, failing: set[str], tell: Tell) -> None:
    now, name = time.monotonic(), table.source.name
    try:
        if table.is_due(now):
            table.refresh(now)
            tell("refreshed", source=name)
        failing.discard(name)
    except Exception as error:
        # What is kept still serves; a database that is down for a moment must not end the looking.
        if name not in failing:
            tell("stale", source=name, reason=summary(error))
        failing.add(name)


def _file_relations(rows: DataFrame) -> list[Any]:
    leaves = rows._jdf.queryExecution().analyzed().collectLeaves()
    found = [leaves.apply(number) for number in range(leaves.length())]
    relations = [leaf.relation() for leaf in found if leaf.getClass().getSimpleName() == "LogicalRelation"]
    # A database has no list of files to forget: it is asked again by itself.
    return [relation for relation in relations if relation.getClass().getSimpleName() == "HadoopFsRelation"]
