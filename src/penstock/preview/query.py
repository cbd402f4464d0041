"""A preview: a temporary query that shows the rows of one stream, without the pipeline's sinks.

sources ──► steps ──► [step or SELECT] ──► rows, at most so many a second, for so long
"""

from __future__ import annotations

import math
import queue
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal

from penstock.connector import Previewable, SourceOptions
from penstock.engine.build import Read, build, from_connector, refuse
from penstock.engine.decode import bad_records
from penstock.errors import CallError, RunError
from penstock.model import Pipeline, Source, Step
from penstock.spark.errors import summary
from penstock.text import did_you_mean

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


#: The name of the user's SELECT as a step.
SELECT_NAME = "your SELECT"
_POLL_SECONDS = 0.25
_WAITING = 64
# A running aggregate is shown whole after each batch, so that it updates in place.
_MODES: tuple[Literal["complete", "append", "update"], ...] = ("complete", "append", "update")


@dataclass(frozen=True)
class Limits:
    """How much a preview may show and read."""

    rows: int = 1000
    """Rows in all; of a running aggregate, rows after each batch."""
    seconds: float = 300.0
    per_second: int = 200
    batch_rows: int = 10_000
    """Records that one batch reads, of sources that can be limited."""
    updates: int = 0
    """Batches with something to show; 0 for no limit."""


@dataclass(frozen=True)
class RowBatch:
    """Rows that arrived."""

    batch: int
    rows: list[list[Any]]
    replaces: bool
    """Whether these are all rows there are, instead of those before."""
    left_out: int = 0
    """Rows of the batch beyond the limits; of a running aggregate 1 if there are any."""


@dataclass(frozen=True)
class Preview:
    """A running preview: its columns, then the rows as they arrive."""

    columns: list[tuple[str, str]]
    mode: str
    rows: Iterator[RowBatch]
    why: Callable[[], str]
    """Why the rows have ended."""


def find_stream(pipeline: Pipeline, name: str | None) -> str:
    """The source or step of a name; without a name, what the first sink reads."""
    if name is None:
        return pipeline.sinks[0].reads if pipeline.sinks else pipeline.sources[0].name
    sinks = {sink.name: sink.reads for sink in pipeline.sinks}
    if name in pipeline.streams or name in sinks:
        return sinks.get(name, name)
    fix = did_you_mean(name, [*pipeline.streams, *sinks])
    raise CallError(f"{pipeline.at.file} has no source, step or sink {name!r}; {fix}")


def subgraph(pipeline: Pipeline, name: str, start: Literal["latest", "earliest"], limits: Limits) -> Pipeline:
    """The part of a pipeline that one stream needs, read from now or the beginning, in small batches."""
    needed = set(pipeline.upstream(name))
    sources = (source for source in pipeline.sources if source.name in needed)
    return replace(
        pipeline,
        sources=tuple(
            replace(source, connector=_for_preview(source.connector, start, limits.batch_rows)) for source in sources
        ),
        steps=tuple(step for step in pipeline.steps if step.name in needed),
        sinks=(),
    )


def _for_preview(connector: SourceOptions, start: str, batch_rows: int) -> SourceOptions:
    return connector.for_preview(start, batch_rows) if isinstance(connector, Previewable) else connector


@contextmanager
def preview(
    pipeline: Pipeline,
    spark: SparkSession,
    name: str,
    limits: Limits,
    *,
    bad: bool = False,
    read: Read = from_connector,
    enough: Callable[[], bool] = lambda: False,
) -> Iterator[Preview]:
    """Preview one stream of a pipeline that `subgraph` and `prepare` returned; its query ends with the block."""
    node = pipeline.streams[name]
    rows = _bad(node, spark, read) if bad else build(pipeline, spark, read)[name]
    with preview_rows(rows, limits, enough=enough, refuse=lambda error: refuse("step", node, error)) as found:
        yield found


@contextmanager
def preview_rows(
    rows: DataFrame,
    limits: Limits,
    *,
    enough: Callable[[], bool] = lambda: False,
    refuse: Callable[[Exception], Exception] = lambda error: RunError(summary(error)),
) -> Iterator[Preview]:
    """Preview any streaming DataFrame."""
    if not rows.isStreaming:
        raise CallError("these rows are not a stream; a static table can only be joined with one")
    with tempfile.TemporaryDirectory(prefix="penstock-preview-") as folder:
        window = _Window(limits)
        query, mode = _start(rows, folder, window, refuse)
        try:
            columns = [(field.name, field.dataType.simpleString()) for field in rows.schema.fields]
            yield Preview(columns, mode, _read(query, window, enough), lambda: window.why)
        finally:
            window.close()
            query.stop()


def _bad(node: Source | Step, spark: SparkSession, read: Read) -> DataFrame:
    if not isinstance(node, Source):
        raise CallError(f"{node.name!r} is a step; bad records are those of a source")
    return bad_records(node, read(node, spark))


def _start(
    rows: DataFrame, folder: str, window: _Window, refuse: Callable[[Exception], Exception]
) -> tuple[StreamingQuery, str]:
    from pyspark.errors import AnalysisException

    problem: Exception | None = None
    for mode in _MODES:
        window.replaces = mode == "complete"
        writer = rows.writeStream.foreachBatch(window.take).outputMode(mode)
        try:
            return writer.option("checkpointLocation", f"{folder}/{mode}").start(), mode
        except AnalysisException as error:
            # Only Spark knows which modes are possible; its message about the last one is raised.
            problem = error
    assert problem is not None
    raise refuse(problem) from problem


@dataclass
class _Window:
    """Rows between the query and the reader: bounded, so that the query never waits for a slow reader."""

    limits: Limits
    replaces: bool = False
    why: str = ""
    _shown: int = 0
    _updates: int = 0
    _began: float = field(default_factory=time.monotonic)
    _waiting: queue.Queue[RowBatch] = field(default_factory=lambda: queue.Queue(_WAITING))
    _closed: threading.Event = field(default_factory=threading.Event)

    def take(self, rows: DataFrame, number: int) -> None:
        """What `foreachBatch` calls."""
        if self._closed.is_set() or self._has_updates():
            return
        most = self._most()
        # Not cached: Spark cannot sort a cached result of complete mode. One extra row tells that there are more.
        found = rows.limit(most + 1).collect()
        left_out = self._left_out(rows, most) if len(found) > most else 0
        found = found[:most]
        if not found and not left_out and not self.replaces:
            return
        self._updates += 1
        self._shown += 0 if self.replaces else len(found)
        shown = RowBatch(number, [[plain_value(value) for value in row] for row in found], self.replaces, left_out)
        try:
            self._waiting.put_nowait(shown)
        except queue.Full:
            self._make_room(shown)

    def _left_out(self, rows: DataFrame, most: int) -> int:
        """How many rows are beyond the limit; of a running aggregate only that there are some."""
        return 1 if self.replaces else rows.count() - most

    def _make_room(self, shown: RowBatch) -> None:
        """The reader is slow: drop the oldest rows, and count them."""
        lost = self._waiting.get_nowait()
        more = lost.left_out + (0 if self.replaces else len(lost.rows))
        self._waiting.put_nowait(replace(shown, left_out=shown.left_out + more))

    def _most(self) -> int:
        if self.replaces:
            return self.limits.rows
        allowed = int((time.monotonic() - self._began + 1) * self.limits.per_second)
        return max(0, min(self.limits.rows, allowed) - self._shown)

    def next(self) -> RowBatch | None:
        """The next rows, or None after a moment without any."""
        try:
            return self._waiting.get(timeout=_POLL_SECONDS)
        except queue.Empty:
            return None

    def is_full(self) -> bool:
        """Whether there is nothing more to show."""
        enough = self._has_updates() or (not self.replaces and self._shown >= self.limits.rows)
        return enough and self._waiting.empty()

    def _has_updates(self) -> bool:
        return 0 < self.limits.updates <= self._updates

    def describe_limit(self) -> str:
        """Why there is nothing more to show."""
        counted, what = (self.limits.updates, "update") if self._has_updates() else (self.limits.rows, "row")
        return f"{counted:,} {what} was shown" if counted == 1 else f"{counted:,} {what}s were shown"

    def is_over(self) -> bool:
        """Whether the time is over."""
        return time.monotonic() - self._began >= self.limits.seconds

    def close(self) -> None:
        """Take no more."""
        self._closed.set()


def _read(query: StreamingQuery, window: _Window, enough: Callable[[], bool]) -> Iterator[RowBatch]:
    while True:
        shown = window.next()
        if shown is not None:
            yield shown
            continue
        if enough():
            window.why = "stopped"
        elif window.is_full():
            window.why = window.describe_limit()
        elif window.is_over():
            window.why = f"{window.limits.seconds:,.0f} seconds are over"
        elif not query.isActive:
            failed = query.exception()
            if failed is not None:
                raise RunError(summary(failed)) from failed
            window.why = "the stream has ended"
        if window.why:
            return


_MOST_TEXT = 2000
_MOST_ITEMS = 100


def plain_value(value: Any) -> Any:
    """Numbers and truth stay; everything else becomes text, lists and mappings, cut where they are very long."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        # Browsers hold whole numbers up to 2^53 exactly.
        return value if abs(value) < 2**53 else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="milliseconds").removesuffix(".000")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes | bytearray):
        return _cut("0x" + bytes(value[: _MOST_TEXT // 2]).hex())
    return _convert_parts(value)


def _convert_parts(value: Any) -> Any:
    if hasattr(value, "asDict"):
        return {name: plain_value(each) for name, each in value.asDict().items()}
    if isinstance(value, dict):
        return {_cut(str(key)): plain_value(each) for key, each in list(value.items())[:_MOST_ITEMS]}
    if isinstance(value, list | tuple):
        return [plain_value(each) for each in value[:_MOST_ITEMS]]
    return _cut(str(value))


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_TEXT else text[: _MOST_TEXT - 1] + "…"
