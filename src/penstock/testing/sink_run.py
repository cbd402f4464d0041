"""One sink's query during a test: its batches, restarts and crashes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.connector import SinkOptions
from penstock.connectors.files import FileSource
from penstock.engine import Queries, start
from penstock.errors import PenstockError
from penstock.model import Pipeline, Sink, Source, Target, Trigger
from penstock.spark.internals import recent_progress
from penstock.storage.layout import Storage
from penstock.testing.carriers import Files, Memory, Table
from penstock.testing.case import Given, Moment
from penstock.testing.difference import Row, collect_rows, compare
from penstock.watch.snapshot import snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter


_END_SECONDS = 10


class ReplayError(PenstockError):
    """A batch replayed after a crash wrote different rows."""


class _Kept(SinkOptions):
    """Replaces a sink's connector, so that the query has a checkpoint even if the real one needs none."""

    kind: ClassVar[str] = "kept"
    promise: ClassVar[str] = "for tests"


class _CrashError(Exception):
    """The requested crash, raised inside the sink."""


@dataclass
class SinkRun:
    """A query that reads given rows and collects what it writes, by micro-batch."""

    pipeline: Pipeline
    sink: Sink
    spark: SparkSession
    files: Mapping[str, Files]
    folder: Path
    tables: Mapping[str, Table] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    written: dict[int, tuple[Row, ...]] = field(default_factory=dict)
    reports: dict[int, dict[str, Any]] = field(default_factory=dict)
    spans: list[range] = field(default_factory=list)
    _crash_at: int | None = None
    _crashed: bool = False
    _replay_difference: str = ""
    _last_report: tuple[str, str] = ("", "")
    _queries: Queries | None = None

    def __post_init__(self) -> None:
        self.pipeline = narrow(self.pipeline, self.sink)
        self.sources = {source.name: source for source in self.pipeline.sources if not source.static}
        in_memory = [source for source in self.sources.values() if not isinstance(source.connector, FileSource)]
        self._memory = Memory(self.spark, in_memory)
        self._in_memory = {source.name for source in in_memory}

    @property
    def next_batch(self) -> int:
        """The number of the next micro-batch."""
        return max(self.written, default=-1) + 1

    def start(self) -> None:
        """Start the query, from its checkpoint if it has one."""
        self._memory.renew()
        storage = Storage(str(self.folder))
        self._queries = start(self.pipeline, self.spark, storage=storage, read=self._read, write=self._write)

    def stop(self) -> None:
        """Stop the query."""
        if self._queries is not None:
            self._queries.stop()

    def restart(self) -> None:
        """Restart the query from its checkpoint."""
        self.stop()
        self.start()

    def must_pause(self, rows: Mapping[str, Sequence[Given]]) -> bool:
        """Whether these rows arrive by several ways, which a running query could see in separate batches."""
        names = set(rows) & set(self.sources)
        ways = len(names - self._in_memory) + bool(names & self._in_memory)
        return ways > 1

    def feed(self, rows: Mapping[str, Sequence[Given]]) -> None:
        """Feed the rows of the memory stream; files are written once for all queries."""
        if set(rows) & self._in_memory:
            self._memory.feed(rows)

    def refresh(self, tables: Mapping[str, Source]) -> None:
        """Reload these static tables; those that are never refreshed, only before the first batch."""
        names = {source.name for source in self.pipeline.sources}
        read = [source for source in tables.values() if source.name in names]
        if any(source.static != "never" or not self.written for source in read):
            self.restart()

    @contextmanager
    def span(self, crash: Moment | None) -> Iterator[None]:
        """Surrounds a feed: waits for its micro-batches, crashes if requested, and records their numbers."""
        first = self.next_batch
        self._crash_at = first if crash == "after_write" else None
        try:
            yield
            self._settle()
            if crash == "before_commit":
                self._lose_commits(first)
        finally:
            self.spans.append(range(first, self.next_batch))
        if self._replay_difference:
            raise ReplayError(self._replay_difference)

    def skip(self) -> None:
        """Record a feed that this query does not read."""
        self.spans.append(range(0))

    def rows(self, span: int | None = None) -> tuple[Row, ...]:
        """The rows written for one feed, or in all; in mode complete, the last table."""
        numbers = sorted(self.written) if span is None else [at for at in self.spans[span] if at in self.written]
        if self.sink.mode == "complete":
            return self.written[numbers[-1]] if numbers else ()
        return tuple(row for number in numbers for row in self.written[number])

    @property
    def bad_records(self) -> dict[str, int]:
        """Bad records of each source, over all batches."""
        found = dict.fromkeys(self.sources, 0)
        for report in self.reports.values():
            for name, count in snapshot(report).bad_records.items():
                found[name] = found.get(name, 0) + count
        return found

    @property
    def late_rows(self) -> int:
        """Late rows over all batches."""
        return sum(snapshot(report).late_rows for report in self.reports.values())

    @property
    def state_rows(self) -> int:
        """Rows in the state after the last batch."""
        return snapshot(self.reports[max(self.reports)]).state_rows if self.reports else 0

    def advance(self, watermark_milliseconds: int) -> None:
        """Restart with a later watermark and run an empty batch."""
        if not self.written:
            self._feed_nothing()
            self._settle()
        self.stop()
        path = self._log("commits") / str(self.next_batch - 1)
        version, _, text = path.read_text().partition("\n")
        commit = json.loads(text)
        commit["nextBatchWatermarkMs"] = max(commit.get("nextBatchWatermarkMs", 0), watermark_milliseconds)
        path.write_text(f"{version}\n{json.dumps(commit)}")
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
        self.start()
        with self.span(None):
            self._feed_nothing()

    def _feed_nothing(self) -> None:
        if self._in_memory:
            self._memory.feed({})
        else:
            next(self.files[name] for name in self.sources).feed([])

    def _settle(self) -> None:
        try:
            self._wait()
        except PenstockError:
            if not self._crashed:
                raise
            self._crashed = False
            self.restart()
            self._wait()

    def _wait(self) -> None:
        assert self._queries is not None
        for query in self._queries:
            try:
                query.processAllAvailable()
            except Exception:
                # `processAllAvailable` fails shortly before the query has ended.
                with suppress(Exception):
                    query.awaitTermination(_END_SECONDS)
                for _, error in self._queries.failures():
                    raise error from None
                raise
            finally:
                self._take_reports(query)

    def _take_reports(self, query: StreamingQuery) -> None:
        progress: Any = recent_progress(query)
        newest = None
        for at in range(len(progress) - 1, -1, -1):
            report = json.loads(progress[at].json())
            newest = newest or (report["runId"], report["timestamp"])
            if (report["runId"], report["timestamp"]) == self._last_report:
                break
            if "addBatch" in report["durationMs"]:
                self.reports[report["batchId"]] = report
        self._last_report = newest or self._last_report

    def _lose_commits(self, first: int) -> None:
        """Leave the checkpoint as a kill before the commit of batch `first` would, and restart."""
        self.stop()
        for number in range(first, self.next_batch):
            _delete(self._log("commits") / str(number))
            if number > first:
                _delete(self._log("offsets") / str(number))
        self.start()
        self._wait()

    def _log(self, name: str) -> Path:
        return Path(Storage(str(self.folder)).checkpoint(self.sink.name), name)

    def _read(self, source: Source, _spark: SparkSession) -> DataFrame:
        if source.name in self.tables:
            return self.tables[source.name].read()
        return self.files[source.name].read() if source.name in self.files else self._memory.read(source)

    def _write(self, _sink: Sink, rows: DataFrame) -> DataStreamWriter:
        self.columns = tuple(rows.columns)
        return rows.writeStream.foreachBatch(self._collect)

    def _collect(self, rows: DataFrame, number: int) -> None:
        found = collect_rows(rows)
        before = self.written.get(number)
        self.written[number] = found
        if before is not None:
            self._compare_replay(number, before, found)
        if number == self._crash_at:
            self._crash_at, self._crashed = None, True
            raise _CrashError(f"crash requested by the test after the write of batch {number}")

    def _compare_replay(self, number: int, before: Sequence[Row], again: Sequence[Row]) -> None:
        difference = compare(before, again)
        if difference:
            lines = "; ".join(str(line) for line in difference.lines)
            says = f"batch {number} wrote different rows when it was replayed after the crash: {lines}"
            self._replay_difference = f"{self.sink.at}: sink {self.sink.name!r}: {says}"


def narrow(pipeline: Pipeline, sink: Sink) -> Pipeline:
    """The part of a pipeline that one sink needs, with a trigger that does not wait."""
    names = pipeline.upstream(sink.reads)
    return replace(
        pipeline,
        # A test decides when a table is reloaded, not the clock.
        sources=tuple(
            replace(source, static="never") if source.static else source
            for source in pipeline.sources
            if source.name in names
        ),
        steps=tuple(step for step in pipeline.steps if step.name in names),
        sinks=(replace(sink, targets=(Target("kept", sink.at, _Kept(), ()),), trigger=Trigger()),),
    )


def _delete(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
