"""Tables beside the streams, read again when they are due: a stale dimension is a known trap."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penstock.model import Pipeline, Source
from penstock.options import seconds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LOOK_SECONDS = 1.0

Refreshed = Callable[[str], None]


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


def keep_fresh(
    pipeline: Pipeline, streams: Mapping[str, DataFrame], running: Callable[[], bool], refreshed: Refreshed
) -> list[StaticTable]:
    """Watch the static tables for as long as queries are `running`; says the name of each one that is read again."""
    now = time.monotonic()
    tables = [StaticTable(source, streams[source.name], now) for source in pipeline.sources if source.static]
    if any(table.source.static != "never" for table in tables):
        threading.Thread(target=_watch, args=(tables, running, refreshed), name="static", daemon=True).start()
    return tables


def _watch(tables: Sequence[StaticTable], running: Callable[[], bool], refreshed: Refreshed) -> None:
    pause = threading.Event()
    while running():
        for table in tables:
            now = time.monotonic()
            if table.is_due(now):
                table.refresh(now)
                refreshed(table.source.name)
        pause.wait(_LOOK_SECONDS)


def _file_relations(rows: DataFrame) -> list[Any]:
    leaves = rows._jdf.queryExecution().analyzed().collectLeaves()
    found = [leaves.apply(number) for number in range(leaves.length())]
    return [leaf.relation() for leaf in found if leaf.getClass().getSimpleName() == "LogicalRelation"]
