"""Who is told about the queries of a pipeline besides us: classes of the user, and consumer groups of Kafka."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.connector import OffsetCommitter
from penstock.errors import BuildError, PenstockError
from penstock.events import Emit
from penstock.imports import import_object
from penstock.model import Pipeline
from penstock.spark.errors import summary
from penstock.storage.manifest import manifest, named_sources

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Offsets = dict[str, dict[str, int]]
_LAST_SECONDS = 10.0
_CALLS = ("onQueryStarted", "onQueryProgress", "onQueryIdle", "onQueryTerminated")
#: What is attached to a session, by pipeline: a second start in a notebook takes the place of the first.
_attached: dict[tuple[int, str], list[Any]] = {}


def attach(pipeline: Pipeline, spark: SparkSession, emit: Emit) -> None:
    """From now on listeners hear of this pipeline's queries; those of an earlier start of it no longer do."""
    detach(pipeline, spark)
    sinks = {sink.name for sink in pipeline.sinks}
    made = [_Named(_instance(path), path, sinks, emit) for path in pipeline.listeners]
    groups = _Groups.of(pipeline, emit)
    listeners = [_listener(each.call) for each in made] + ([_listener(groups.call)] if groups else [])
    for listener in listeners:
        spark.streams.addListener(listener)
    _attached[(id(spark), pipeline.name)] = listeners


def detach(pipeline: Pipeline, spark: SparkSession) -> None:
    """Nobody hears of this pipeline's queries any more."""
    for listener in _attached.pop((id(spark), pipeline.name), []):
        spark.streams.removeListener(listener)


@dataclass
class _Named:
    """A listener of the user; what it raises is told, and neither the query nor another listener notices."""

    listener: Any
    path: str
    sinks: set[str]
    emit: Emit
    _ours: set[str] = field(default_factory=set)

    def call(self, name: str, event: Any) -> None:
        """Hand over what is about this pipeline."""
        if not self._is_ours(name, event):
            return
        try:
            getattr(self.listener, name)(event)
        except Exception as error:  # code of the user: whatever it raises, the pipeline goes on
            self.emit("listener_failed", listener=self.path, reason=f"{type(error).__name__}: {summary(error)}")

    def _is_ours(self, name: str, event: Any) -> bool:
        if name == "onQueryStarted" and event.name in self.sinks:
            self._ours.add(str(event.runId))
        run = event.progress.runId if name == "onQueryProgress" else event.runId
        return str(run) in self._ours


@dataclass
class _Groups:
    """Commits in a thread of its own: a broker that is slow to answer does not slow the batches."""

    nodes: list[dict[str, Any]]
    commits: dict[str, Callable[[Any], None]]
    sinks: set[str]
    emit: Emit
    _ends: dict[str, dict[str, Offsets]] = field(default_factory=dict)
    _waiting: queue.Queue[tuple[str, Any]] = field(default_factory=lambda: queue.Queue(64))

    @classmethod
    def of(cls, pipeline: Pipeline, emit: Emit) -> _Groups | None:
        """One for the sources that ask for it; None if none does."""
        asked = {
            source.name: source.connector.offset_committer()
            for source in pipeline.sources
            if not source.static and isinstance(source.connector, OffsetCommitter)
        }
        commits = {name: commit for name, commit in asked.items() if commit is not None}
        if not commits:
            return None
        made = cls(manifest(pipeline)["nodes"], commits, {sink.name for sink in pipeline.sinks}, emit)
        threading.Thread(target=made._work, name="groups", daemon=True).start()
        return made

    def call(self, name: str, event: Any) -> None:
        """After each batch: remember where its sources have come to; when a query ends, wait until it is told."""
        if name == "onQueryTerminated":
            with self._waiting.all_tasks_done:
                self._waiting.all_tasks_done.wait_for(lambda: not self._waiting.unfinished_tasks, _LAST_SECONDS)
        if name != "onQueryProgress" or event.progress.name not in self.sinks:
            return
        sources = event.progress.sources
        names = named_sources(self.nodes, event.progress.name, [source.description for source in sources])
        for source_name, source in zip(names, sources, strict=True):
            if source_name in self.commits and source.endOffset:
                ends = self._ends.setdefault(source_name, {})
                ends[event.progress.name] = json.loads(source.endOffset)
                self._remember(source_name, slowest(list(ends.values())))

    def _remember(self, source: str, end: Any) -> None:
        try:
            self._waiting.put_nowait((source, end))
        except queue.Full:
            # A later position says everything that an earlier one did.
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
    """What every query that reads a source has processed: of each partition the least."""
    places = {(topic, partition) for end in ends for topic in end for partition in end[topic]}
    least: Offsets = {}
    for topic, partition in sorted(places):
        known = [end[topic][partition] for end in ends if partition in end.get(topic, {})]
        least.setdefault(topic, {})[partition] = min(known)
    return least


def _instance(path: str) -> Any:
    made = import_object(path)
    try:
        listener = made()
    except Exception as error:
        raise BuildError(f"the listener {path!r} cannot be made: {type(error).__name__}: {error}") from error
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
