"""Hop four: DataFrames to running queries, and waiting for them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.engine.build import Read, build, from_connector, refused
from penstock.engine.listeners import attach
from penstock.engine.row_counts import add_counts
from penstock.engine.static_tables import keep_fresh, static_tables
from penstock.engine.targets import Guard, TargetWriter, Tell, rows_for, unguarded
from penstock.errors import PenstockError, RunError
from penstock.model import Pipeline, Sink, Source, Trigger
from penstock.spark.errors import error_class, is_retryable, summary
from penstock.storage.layout import Storage
from penstock.storage.ledger import Ledger

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_ONCE = Trigger("available-now")

Write = Callable[[Sink, "DataFrame"], "DataStreamWriter"]


def to_targets(pipeline: Pipeline, storage: Storage, tell: Tell, guard: Guard = unguarded) -> Write:
    """How a sink is written: by Spark itself, or every batch by us to each of its targets."""

    def write(sink: Sink, rows: DataFrame) -> DataStreamWriter:
        for target in sink.targets:
            target.connector.fit(rows.sparkSession, rows_for(target, rows).schema, sink.mode)
        if sink.native is not None:
            return sink.native.write(rows)
        return rows.writeStream.foreachBatch(TargetWriter(pipeline, sink, Ledger(storage, sink.name), tell, guard))

    return write


@dataclass(frozen=True)
class Built:
    """A pipeline that is ready: each sink's query can be started, and started again."""

    pipeline: Pipeline
    streams: Mapping[str, DataFrame]
    storage: Storage
    write: Write
    once: bool = False
    tell: Tell = lambda _what, **_facts: None

    def start(self, sink: Sink) -> StreamingQuery:
        """Start one sink's query; it goes on from its checkpoint."""
        rows = add_counts(sink, self.streams[sink.reads], self._sources(sink), self.tell)
        writer = _written(sink, rows, self.write)
        return _start(sink, writer, self.storage.checkpoint(sink.name), once=self.once)

    def _sources(self, sink: Sink) -> dict[str, DataFrame]:
        read = self.pipeline.upstream(sink.reads)
        return {source.name: self.streams[source.name] for source in self.pipeline.sources if source.name in read}

    def start_all(self) -> list[StreamingQuery]:
        """Start every sink's query, or none of them."""
        queries: list[StreamingQuery] = []
        try:
            for sink in self.pipeline.sinks:
                queries.append(self.start(sink))
        except BaseException:
            stop(queries)
            raise
        return queries


def start(
    pipeline: Pipeline,
    spark: SparkSession,
    *,
    once: bool = False,
    storage: Storage | None = None,
    read: Read = from_connector,
    write: Write | None = None,
    tell: Tell = lambda _what, **_facts: None,
) -> list[StreamingQuery]:
    """Build the pipeline and start one query per sink; with `once` each ends when it has read what is there."""
    streams = build(pipeline, spark, read)
    place = storage or Storage.of(pipeline)
    place.claim(pipeline)
    tables = static_tables(pipeline, streams)
    attach(pipeline, spark, tell)
    queries = Built(pipeline, streams, place, write or to_targets(pipeline, place, tell), once, tell).start_all()
    keep_fresh(tables, lambda: any(query.isActive for query in queries), tell)
    return queries


def _written(sink: Sink, rows: DataFrame, write: Write) -> DataStreamWriter:
    try:
        return write(sink, rows)
    except PenstockError as error:
        raise error.placed(f"{sink.at}: sink {sink.name!r}") from error
    except Exception as error:
        raise refused("sink", sink, error) from error


def _start(sink: Sink, writer: DataStreamWriter, checkpoint: str, *, once: bool) -> StreamingQuery:
    try:
        writer = writer.outputMode(sink.mode).queryName(sink.name)
        if sink.native is None or sink.native.has_checkpoint:
            writer = writer.option("checkpointLocation", checkpoint)
        return _triggered(writer, _ONCE if once else sink.trigger).start()
    except Exception as error:
        raise refused("sink", sink, error) from error


def _triggered(writer: DataStreamWriter, trigger: Trigger) -> DataStreamWriter:
    if trigger.kind == "default":
        return writer
    if trigger.kind == "interval":
        return writer.trigger(processingTime=trigger.interval)
    if trigger.kind == "once":
        return writer.trigger(once=True)
    if trigger.kind == "available-now":
        return writer.trigger(availableNow=True)
    if trigger.kind == "continuous":
        return writer.trigger(continuous=trigger.interval)
    return writer.trigger(realTime=trigger.interval)  # type: ignore[call-overload,no-any-return]


def stop(queries: Sequence[StreamingQuery]) -> None:
    """Stop every query; those that ended stay ended."""
    for query in queries:
        query.stop()


def wait(
    pipeline: Pipeline,
    queries: Sequence[StreamingQuery],
    ended: threading.Event,
    enough: Callable[[], bool] = lambda: False,
) -> None:
    """Return when every query has ended or `enough` says so; raise the reason as soon as one fails."""
    while not enough():
        active = [query for query in queries if query.isActive]
        for query in queries:
            if query not in active:
                _raise_failure(pipeline, query)
        if not active:
            return
        # Woken by the listener when a query ends; the bound only limits how late `enough` is asked.
        ended.wait(0.25)
        ended.clear()


def _raise_failure(pipeline: Pipeline, query: StreamingQuery) -> None:
    failed = failure(pipeline, query)
    if failed is not None:
        raise failed


def failure(pipeline: Pipeline, query: StreamingQuery) -> RunError | None:
    """Why a query has ended, in our words, and whether trying again can help; None if it did not fail."""
    error = query.exception()
    if error is None:
        return None
    sink = next(sink for sink in pipeline.sinks if sink.name == query.name)
    read = [pipeline.streams[name] for name in pipeline.upstream(sink.reads)]
    for source in (node for node in read if isinstance(node, Source)):
        known = source.connector.explain(str(error))
        if known is not None:
            return RunError(f"{source.at}: source {source.name!r}: {known}", retry=False)
    retry = is_retryable(error_class(error), str(error))
    return RunError(f"{sink.at}: sink {sink.name!r}: {summary(error)}", retry=retry)


def listen(spark: SparkSession, progress: Callable[[dict[str, Any]], None], ended: threading.Event) -> Any:
    """Hand every batch's report to `progress`, and set `ended` when a query ends."""
    import json

    from pyspark.sql.streaming.listener import StreamingQueryListener

    class Listener(StreamingQueryListener):
        def onQueryStarted(self, event: Any) -> None:  # noqa: N802
            pass

        def onQueryProgress(self, event: Any) -> None:  # noqa: N802
            progress(json.loads(event.progress.json))

        def onQueryIdle(self, event: Any) -> None:  # noqa: N802
            pass

        def onQueryTerminated(self, event: Any) -> None:  # noqa: N802, ARG002
            ended.set()

    listener = Listener()
    spark.streams.addListener(listener)
    return listener
