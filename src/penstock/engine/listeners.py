"""What hears of a pipeline's queries: progress, the user's listener classes, and Kafka consumer groups.

One listener of Spark's for all of them: every one costs a call into Python for each event.
"""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from penstock.connector import OffsetCommitter
from penstock.errors import BuildError, PenstockError
from penstock.events import Emit
from penstock.imports import import_object
from penstock.model import Pipeline
from penstock.spark.errors import summary
from penstock.storage.layout import manifest, named_sources

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Offsets = dict[str, dict[str, int]]
OnProgress = Callable[[dict[str, Any]], None]
"""Takes the report of each batch, from a thread of Spark's."""
_LAST_SECONDS = 10.0
_CALLS = ("onQueryStarted", "onQueryProgress", "onQueryIdle", "onQueryTerminated")


class Receiver(Protocol):
    """Takes the events of a pipeline's queries."""

    def call(self, name: str, event: Any) -> None:
        """`name` is the method of StreamingQueryListener that Spark calls."""
        ...


def find_receivers(pipeline: Pipeline, emit: Emit) -> list[Receiver]:
    """The receivers that a file asks for: listener classes and consumer groups."""
    named: list[Receiver] = [_UserListener(_create_listener(path), path, emit) for path in pipeline.listeners]
    groups = _ConsumerGroups.of(pipeline, emit)
    return [*named, groups] if groups else named


@dataclass
class ProgressReceiver:
    """Hands the report of every batch to a function, and sets an event when a query ends."""

    on_progress: OnProgress
    ended: threading.Event

    def call(self, name: str, event: Any) -> None:
        """Pass it on."""
        if name == "onQueryProgress":
            self.on_progress(json.loads(event.progress.json))
        elif name == "onQueryTerminated":
            self.ended.set()


@dataclass
class QueryListener:
    """Passes the events of the queries that were started through it to its receivers."""

    spark: SparkSession
    receivers: Sequence[Receiver]
    starting: str = ""
    """The name of the query that is being started: Spark calls `onQueryStarted` before `start` returns."""
    _runs: set[str] = field(default_factory=set)
    _listener: Any = None

    def attach(self) -> None:
        """Hear of the session's queries, if there is a receiver: each event costs calls between JVM and Python."""
        if not self.receivers:
            return
        self._listener = _listener(self._call)
        self.spark.streams.addListener(self._listener)

    def detach(self) -> None:
        """Hear of them no more."""
        if self._listener is not None:
            self.spark.streams.removeListener(self._listener)
            self._listener = None

    def _call(self, name: str, event: Any) -> None:
        run = str(event.progress.runId if name == "onQueryProgress" else event.runId)
        if name == "onQueryStarted" and event.name == self.starting:
            self._runs.add(run)
        if run in self._runs:
            for receiver in self.receivers:
                receiver.call(name, event)


@dataclass
class _UserListener:
    """A listener of the user; an exception of it becomes an event, and affects neither queries nor other listeners."""

    listener: Any
    path: str
    emit: Emit

    def call(self, name: str, event: Any) -> None:
        """Call the user's method."""
        try:
            getattr(self.listener, name)(event)
        except Exception as error:  # user code: whatever it raises, the pipeline continues
            self.emit("listener_failed", listener=self.path, reason=f"{type(error).__name__}: {summary(error)}")


@dataclass
class _ConsumerGroups:
    """Commits offsets to consumer groups in a separate thread: a slow broker does not slow the batches."""

    nodes: list[dict[str, Any]]
    commits: dict[str, Callable[[Any], None]]
    emit: Emit
    _ends: dict[str, dict[str, Offsets]] = field(default_factory=dict)
    _waiting: queue.Queue[tuple[str, Any]] = field(default_factory=lambda: queue.Queue(64))

    @classmethod
    def of(cls, pipeline: Pipeline, emit: Emit) -> _ConsumerGroups | None:
        """One for the sources that ask for it; None if none does."""
        asked = {
            source.name: source.connector.offset_committer()
            for source in pipeline.sources
            if not source.static and isinstance(source.connector, OffsetCommitter)
        }
        commits = {name: commit for name, commit in asked.items() if commit is not None}
        if not commits:
            return None
        groups = cls(manifest(pipeline)["nodes"], commits, emit)
        threading.Thread(target=groups._work, name="groups", daemon=True).start()
        return groups

    def call(self, name: str, event: Any) -> None:
        """After each batch queue the positions of its sources; when a query ends, wait until they are committed."""
        if name == "onQueryTerminated":
            with self._waiting.all_tasks_done:
                self._waiting.all_tasks_done.wait_for(lambda: not self._waiting.unfinished_tasks, _LAST_SECONDS)
        if name != "onQueryProgress":
            return
        sources = event.progress.sources
        names = named_sources(self.nodes, event.progress.name, [source.description for source in sources])
        for source_name, source in zip(names, sources, strict=True):
            if source_name in self.commits and source.endOffset:
                ends = self._ends.setdefault(source_name, {})
                ends[event.progress.name] = json.loads(source.endOffset)
                self._enqueue(source_name, slowest(list(ends.values())))

    def _enqueue(self, source: str, end: Any) -> None:
        try:
            self._waiting.put_nowait((source, end))
        except queue.Full:
            # A later position includes every earlier one.
            self._waiting.get_nowait()
            self._waiting.task_done()
            self._waiting.put_nowait((source, end))

    def _work(self) -> None:
        while True:
            source, end = self._waiting.get()
            try:
                self.commits[source](end)
            except PenstockError as error:
                self.emit("group_failed", source=source, reason=str(error))
            finally:
                self._waiting.task_done()


def slowest(ends: list[Offsets]) -> Offsets:
    """What every query that reads a source has processed: of each partition the smallest offset."""
    places = {(topic, partition) for end in ends for topic in end for partition in end[topic]}
    least: Offsets = {}
    for topic, partition in sorted(places):
        known = [end[topic][partition] for end in ends if partition in end.get(topic, {})]
        least.setdefault(topic, {})[partition] = min(known)
    return least


def _create_listener(path: str) -> Any:
    create = import_object(path)
    try:
        listener = create()
    except Exception as error:
        raise BuildError(f"the listener {path!r} cannot be created: {type(error).__name__}: {error}") from error
    missing = [name for name in _CALLS if not callable(getattr(listener, name, None))]
    if missing:
        raise BuildError(f"the listener {path!r} has no {missing[0]!r}; derive it from StreamingQueryListener")
    return listener


def _listener(call: Callable[[str, Any], None]) -> Any:
    from pyspark.sql.streaming.listener import StreamingQueryListener

    class Listener(StreamingQueryListener):
        def onQueryStarted(self, event: Any) -> None:  # noqa: N802
            call("onQueryStarted", event)

        def onQueryProgress(self, event: Any) -> None:  # noqa: N802
            call("onQueryProgress", event)

        def onQueryIdle(self, event: Any) -> None:  # noqa: N802
            call("onQueryIdle", event)

        def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
            call("onQueryTerminated", event)

    return Listener()
