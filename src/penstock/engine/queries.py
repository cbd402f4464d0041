"""The running queries of one driver: which failed, which can be started again alone, how long each is in its batch."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.engine.drain import drain
from penstock.engine.listeners import attach
from penstock.engine.run import Built, failure, stop
from penstock.engine.static_tables import keep_fresh, static_tables
from penstock.engine.targets import Tell
from penstock.errors import RunError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


@dataclass
class Queries:
    """One query per sink."""

    built: Built
    spark: SparkSession
    _queries: dict[str, StreamingQuery] = field(default_factory=dict)
    _restarted_at: dict[str, float] = field(default_factory=dict)
    _busy_since: dict[str, float] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _ending: bool = False

    def start(self, tell: Tell) -> None:
        """Start them all."""
        sinks = self.built.pipeline.sinks
        tables = static_tables(self.built.pipeline, self.built.streams)
        attach(self.built.pipeline, self.spark, tell)
        self._queries = dict(zip((sink.name for sink in sinks), self.built.start_all(), strict=True))
        keep_fresh(tables, lambda: not self._ending, tell)

    @property
    def names(self) -> list[str]:
        """The sinks whose queries were started."""
        return list(self._queries)

    @property
    def have_ended(self) -> bool:
        """Whether no query runs any more."""
        return not any(query.isActive for query in self._queries.values())

    def failed(self) -> list[tuple[str, RunError]]:
        """The queries that have failed, and why."""
        ended = [(name, query) for name, query in self._queries.items() if not query.isActive]
        found = ((name, failure(self.built.pipeline, query)) for name, query in ended)
        return [(name, error) for name, error in found if error is not None]

    def may_restart(self, name: str, healthy_seconds: float) -> bool:
        """Whether a query has not been started again alone for so long."""
        last = self._restarted_at.get(name)
        return last is None or time.monotonic() - last >= healthy_seconds

    def restart(self, name: str) -> None:
        """Start one query again from its checkpoint, while the others go on."""
        sink = next(sink for sink in self.built.pipeline.sinks if sink.name == name)
        self._restarted_at[name] = time.monotonic()
        self._queries[name] = self.built.start(sink)

    def restart_timed(self, most_seconds: float) -> list[str]:
        """Start those that wait for a time of day again, between two batches; their names."""
        timed = [sink for sink in self.built.pipeline.sinks if sink.trigger.kind == "interval" and not self.built.once]
        for sink in timed:
            if drain(self.spark, [self._queries[sink.name]], most_seconds):
                says = "the clock was set back, and its running batch did not end"
                raise RunError(f"{sink.at}: sink {sink.name!r}: {says} within {most_seconds:.0f} s")
            self._queries[sink.name] = self.built.start(sink)
        return [sink.name for sink in timed]

    def batch(self, name: str) -> None:
        """A batch has ended: the next one is timed from here."""
        with self._lock:
            if name in self._busy_since:
                self._busy_since[name] = time.monotonic()

    def look(self) -> dict[str, dict[str, Any]]:
        """For every query whether it is active, and for how long it has been in its batch."""
        found = {}
        for name, query in list(self._queries.items()):
            status = query.status
            now = time.monotonic()
            with self._lock:
                if status["isTriggerActive"]:
                    since = self._busy_since.setdefault(name, now)
                else:
                    since = now
                    self._busy_since.pop(name, None)
            found[name] = {"active": query.isActive, "busy_seconds": round(now - since, 1), "says": status["message"]}
        return found

    def drain(self, most_seconds: float) -> list[str]:
        """Finish the running batches, commit them, begin no other; the names of those that did not end in time."""
        self._ending = True
        return drain(self.spark, list(self._queries.values()), most_seconds)

    def stop(self) -> None:
        """Stop what still runs."""
        self._ending = True
        stop(list(self._queries.values()))
