"""Hop four: a pipeline as running queries, one for each sink."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.connector import FailureExplainer
from penstock.engine.build import Read, build, from_connector, refuse
from penstock.engine.listeners import OnProgress, ProgressReceiver, QueryListener, Receiver, find_receivers
from penstock.engine.row_counts import add_counts
from penstock.engine.static_tables import find_static_tables, keep_fresh
from penstock.engine.targets import Guard, TargetWriters, allow_write, batch_sql, batch_sql_at
from penstock.errors import PenstockError, RunError
from penstock.events import Emit, ignore_event
from penstock.model import Location, Pipeline, Sink, Source, Step, Trigger
from penstock.processes import wait_until
from penstock.redaction import redact
from penstock.spark import name_types
from penstock.spark.errors import find_context, is_retryable_error, summary
from penstock.spark.internals import forbid_next_batch, has_batches, is_in_batch, is_thread_alive, stateful_operators
from penstock.storage.checkpoint import Checkpoint
from penstock.storage.layout import Storage
from penstock.storage.ledger import Ledger
from penstock.text import show_difference

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter


_ONCE = Trigger("available-now")
_POLL_SECONDS = 0.25

Write = Callable[[Sink, "DataFrame"], "DataStreamWriter"]
"""Makes the writer of a sink; a test hands in its own."""


def start(
    pipeline: Pipeline,
    spark: SparkSession,
    *,
    once: bool = False,
    storage: Storage | None = None,
    read: Read = from_connector,
    write: Write | None = None,
    emit: Emit = ignore_event,
    guard: Guard = allow_write,
    on_progress: OnProgress | None = None,
    wake: threading.Event | None = None,
) -> Queries:
    """Build the pipeline and start a query for each sink, or none of them.

    With `once` each query ends when it has read what is there. `wake` is set whenever a query ends.
    """
    place = storage or Storage.of(pipeline)
    place.claim(pipeline)
    streams = build(pipeline, spark, read, once=once)
    queries = Queries(pipeline, spark, streams, place, once, emit, guard, write, on_progress, wake or threading.Event())
    queries.start_all()
    return queries


@dataclass
class Queries:
    """The running queries of a pipeline, by the names of their sinks."""

    pipeline: Pipeline
    spark: SparkSession
    streams: Mapping[str, DataFrame]
    storage: Storage
    once: bool
    emit: Emit
    guard: Guard
    write: Write | None
    on_progress: OnProgress | None
    wake: threading.Event
    _queries: dict[str, StreamingQuery] = field(default_factory=dict)
    _writers: dict[str, TargetWriters] = field(default_factory=dict)
    _causes: dict[str, Exception] = field(default_factory=dict)
    _restarted_at: dict[str, float] = field(default_factory=dict)
    _busy_since: dict[str, float] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _listener: QueryListener | None = None
    _is_ending: bool = False

    def __iter__(self) -> Iterator[StreamingQuery]:
        return iter(list(self._queries.values()))

    def __getitem__(self, sink: str) -> StreamingQuery:
        return self._queries[sink]

    def __len__(self) -> int:
        return len(self._queries)

    @property
    def names(self) -> list[str]:
        """The sinks whose queries were started."""
        return list(self._queries)

    @property
    def have_ended(self) -> bool:
        """Whether no query runs any more."""
        return not any(query.isActive for query in self)

    def start_all(self) -> None:
        """Start every sink's query, or none of them."""
        tables = find_static_tables(self.pipeline, self.streams)
        self._listener = QueryListener(self.spark, self._receivers())
        self._listener.attach()
        try:
            for sink in self.pipeline.sinks:
                self._queries[sink.name] = self._start(sink)
        except BaseException:
            self.stop()
            raise
        keep_fresh(tables, lambda: not self._is_ending, self.emit)

    def failures(self) -> list[tuple[str, RunError]]:
        """The queries that have failed, and why."""
        ended = [(name, query) for name, query in self._queries.items() if not query.isActive]
        found = ((name, self._failure(name, query)) for name, query in ended)
        return [(name, error) for name, error in found if error is not None]

    def wait(self, is_enough: Callable[[], bool] = lambda: False) -> None:
        """Return when every query has ended or `is_enough` says so; raise the reason as soon as one fails."""
        while not is_enough():
            # Before the failures: a query may fail between the two questions.
            have_ended = self.have_ended
            for _, error in self.failures():
                raise error
            if have_ended:
                return
            # Set by the listener when a query ends; the bound only limits how late `is_enough` is asked.
            self.wake.wait(_POLL_SECONDS)
            self.wake.clear()

    def may_restart(self, name: str, healthy_seconds: float) -> bool:
        """Whether a query has not been restarted alone for so long."""
        last = self._restarted_at.get(name)
        return last is None or time.monotonic() - last >= healthy_seconds

    def restart(self, name: str) -> None:
        """Start one query again from its checkpoint, while the others continue."""
        self._restarted_at[name] = time.monotonic()
        self._queries[name] = self._start(self._sink(name))

    def restart_interval_triggers(self, most_seconds: float) -> list[str]:
        """Restart, between two batches, the queries that wait for a time of day; their names."""
        sinks = [sink for sink in self.pipeline.sinks if sink.trigger.is_interval and not self.once]
        for sink in sinks:
            if drain(self.spark, [self._queries[sink.name]], most_seconds):
                says = "the clock was set back, and its running batch did not end"
                raise RunError(f"{sink.at}: sink {sink.name!r}: {says} within {most_seconds:.0f} s")
            self._queries[sink.name] = self._start(sink)
        return [sink.name for sink in sinks]

    def status(self) -> dict[str, dict[str, Any]]:
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

    def batch_files(self, name: str, batch: int) -> Mapping[str, bytes]:
        """The files of the checkpoint that were read when a batch began; empty for a sink that Spark writes itself."""
        writers = self._writers.get(name)
        number, contents = writers.ledger.batch_files if writers else (-1, {})
        return contents if number == batch else {}

    def drain(self, most_seconds: float) -> list[str]:
        """Finish and commit the running batches, begin no other; the names of those that did not end in time."""
        self._is_ending = True
        return drain(self.spark, list(self), most_seconds)

    def stop(self) -> None:
        """Stop what still runs, and close the targets; a running batch is interrupted."""
        self._is_ending = True
        for query in self:
            query.stop()
        for writers in self._writers.values():
            writers.close()
        if self._listener is not None:
            self._listener.detach()

    def _receivers(self) -> list[Receiver]:
        found = find_receivers(self.pipeline, self.emit)
        return [ProgressReceiver(self._take_progress, self.wake), *found] if self.on_progress else found

    def _start(self, sink: Sink) -> StreamingQuery:
        """Start one sink's query; it continues from its checkpoint."""
        try:
            self._refuse_other_state(sink)
            rows = add_counts(sink, self.streams[sink.reads], self._sources(sink), self.emit)
            writer = (self.write or self._writer)(sink, rows).outputMode(sink.mode).queryName(sink.name)
            if sink.native is None or sink.native.has_checkpoint:
                writer = writer.option("checkpointLocation", self.storage.checkpoint(sink.name))
            writer = _with_trigger(writer, _ONCE if self.once else sink.trigger)
            assert self._listener is not None
            self._listener.starting = sink.name
            return writer.start()
        except PenstockError as error:
            raise error.add_place(f"{sink.at}: sink {sink.name!r}") from error
        except Exception as error:
            raise refuse("sink", sink, error) from error

    def _refuse_other_state(self, sink: Sink) -> None:
        """State of the same types may mean something else after an edit, which Spark does not notice."""
        version = self.spark.version
        operators = map(redact, stateful_operators(self.streams[sink.reads]))
        now = {f"{version} {number}": text for number, text in enumerate(operators)}
        known = self.storage.state_of(sink.name)
        has_batches = bool(Checkpoint(self.storage.checkpoint(sink.name)).numbers("offsets"))
        # Another Spark words the same query differently.
        is_comparable = known is not None and all(key.startswith(f"{version} ") for key in known)
        if has_batches and is_comparable and known != now:
            was, here = show_difference("; ".join((known or {}).values()), "; ".join(now.values()))
            says = f"the state in its checkpoint is of {was}, and the file now asks for {here}"
            fix = f"undo the edit, or start over with `penstock reset {self.pipeline.name} --sink {sink.name}`"
            raise RunError(f"{says}: results would be wrong; {fix}", retry=False)
        if known != now and self.write is None:
            self.storage.keep_state(sink.name, now)

    def _writer(self, sink: Sink, rows: DataFrame) -> DataStreamWriter:
        """Spark's own writer of a native sink, or every batch to each of the targets."""
        if sink.native is not None:
            sink.native.check_columns(name_types(rows.schema), sink.mode)
            return sink.native.write_stream(rows)
        if sink.name in self._writers:
            self._writers[sink.name].close()
        writers = TargetWriters(self.pipeline, sink, Ledger(self.storage, sink.name), self.emit, self.guard)
        self._writers[sink.name] = writers
        writers.open(rows)
        return rows.writeStream.foreachBatch(self._keep_cause(sink.name, writers))

    def _keep_cause(self, name: str, write: Callable[[DataFrame, int], None]) -> Callable[[DataFrame, int], None]:
        """As `write`; what it raises is kept, because Spark passes it on as text."""
        self._causes.pop(name, None)

        def write_batch(rows: DataFrame, number: int) -> None:
            try:
                write(rows, number)
            except Exception as error:
                self._causes[name] = error
                raise

        return write_batch

    def _sources(self, sink: Sink) -> dict[str, DataFrame]:
        read = self.pipeline.upstream(sink.reads)
        return {source.name: self.streams[source.name] for source in self.pipeline.sources if source.name in read}

    def _sink(self, name: str) -> Sink:
        return next(sink for sink in self.pipeline.sinks if sink.name == name)

    def _take_progress(self, progress: dict[str, Any]) -> None:
        """A batch has ended: the next one is timed from here."""
        with self._lock:
            if progress["name"] in self._busy_since:
                self._busy_since[progress["name"]] = time.monotonic()
        if self.on_progress is not None:
            self.on_progress(progress)

    def _failure(self, name: str, query: StreamingQuery) -> RunError | None:
        """Why a query has ended, in our words, and whether it is retryable; None if it did not fail."""
        error = query.exception()
        if error is None:
            return None
        sink = self._sink(name)
        read = [self.pipeline.streams[stream] for stream in self.pipeline.upstream(sink.reads)]
        for source in (node for node in read if isinstance(node, Source)):
            connector = source.connector
            known = connector.explain(str(error)) if isinstance(connector, FailureExplainer) else None
            if known is not None:
                return RunError(f"{source.at}: source {source.name!r}: {known}", retry=False)
        retry = is_retryable_error(self._causes.get(name, error))
        return RunError(f"{self._locate(sink, error)}: sink {sink.name!r}: {summary(error)}", retry=retry)

    def _locate(self, sink: Sink, error: Exception) -> Location:
        """The expression that failed, if it is in the SQL of one step or target alone; otherwise the sink."""
        steps = (self.pipeline.streams[name] for name in self.pipeline.upstream(sink.reads))
        maps = [(step.text, step.text_at) for step in steps if isinstance(step, Step) and step.text_at is not None]
        maps += [(batch_sql(target), batch_sql_at(target)) for target in sink.targets]
        places = [found.locate(at) for text, found in maps if (at := find_context(text, error)) is not None]
        return places[0] if len(places) == 1 else sink.at


def _with_trigger(writer: DataStreamWriter, trigger: Trigger) -> DataStreamWriter:
    given = trigger.spark_arguments
    return writer.trigger(**given) if given else writer


def drain(spark: SparkSession, queries: Sequence[StreamingQuery], most_seconds: float) -> list[str]:
    """Finish and commit the running batch of each query, and begin no other; the names of those that did not end."""
    for query in queries:
        if has_batches(query):
            forbid_next_batch(spark, query)
        else:
            query.stop()
    running = list(queries)

    def have_ended() -> bool:
        running[:] = [query for query in running if not _has_ended(query)]
        return not running

    wait_until(have_ended, most_seconds)
    return [str(query.name) for query in running]


def _has_ended(query: StreamingQuery) -> bool:
    if not is_thread_alive(query):
        return True
    if not is_in_batch(query):
        # Asleep until its next trigger, and no batch can begin.
        query.stop()
    return not is_thread_alive(query)
