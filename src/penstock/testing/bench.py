"""A test bench for pipelines: feed rows by hand and inspect what each sink writes."""

from __future__ import annotations

import atexit
import contextlib
import importlib
import importlib.util
import shutil
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from penstock.connectors.files import FileSource
from penstock.engine.prepare import absolute
from penstock.errors import CallError
from penstock.model import Pipeline
from penstock.options import parse_time
from penstock.testing.carriers import Files, Table
from penstock.testing.case import MOMENTS, Given, Moment
from penstock.testing.sink_run import SinkRun
from penstock.text import did_you_mean, join_words

if TYPE_CHECKING:
    from types import TracebackType

    from pyspark.sql import SparkSession
    from typing_extensions import Self


class Freezable(Protocol):
    """A pipeline built in Python."""

    def freeze(self) -> Pipeline:
        """The frozen model."""


class Bench:
    """Feeds every source by hand and collects every sink's rows; everything between runs as in production.

        with Bench(pipeline, spark) as bench:
            bench.feed("trades", {"Amount": 5}, "not json")     one batch; text is a raw record
            assert bench.rows("board") == [{"Total": 5}]

    A batch has run when `feed` returns, including the no-data batches of an advanced watermark.
    """

    def __init__(
        self, pipeline: Pipeline | Freezable, spark: SparkSession, *, sinks: Sequence[str] | None = None
    ) -> None:
        frozen = pipeline if isinstance(pipeline, Pipeline) else pipeline.freeze()
        self._folder = Path(tempfile.mkdtemp(dir=_root()))
        self._pipeline = absolute(frozen)
        self._crash: Moment | None = None
        self.batches = 0
        try:
            self._spark = _new_session(spark, frozen)
            use(frozen)
            self._runs = self._start(sinks)
        except BaseException:
            self.close()
            raise

    def feed(self, source: str, *rows: Given) -> None:
        """Feed one batch of rows: dicts are encoded in the source's format, text is a raw record."""
        self.feed_all({source: rows})

    def feed_all(self, rows: Mapping[str, Sequence[Given]]) -> None:
        """Feed one batch of several sources; a batch without rows runs nothing.

        The rows of a static source replace its whole table.
        """
        sources = {source.name: source for source in self._pipeline.sources}
        for name in rows:
            _one_of("source", name, sources)
        self._put({name: each for name, each in rows.items() if sources[name].static})
        given = {name: tuple(each) for name, each in rows.items() if each and not sources[name].static}
        crash, self._crash = self._crash, None
        self.batches += 1
        reading = [run for run in self._runs.values() if set(given) & set(run.sources)]
        paused = [run for run in reading if run.must_pause(given)]
        for run in self._runs.values():
            if run not in reading:
                run.skip()
        with ExitStack() as spans:
            for run in reading:
                spans.enter_context(run.span(crash))
            for run in paused:
                run.stop()
            for name in given.keys() & self._files.keys():
                self._files[name].feed(given[name])
            for run in reading:
                run.feed(given)
            for run in paused:
                run.start()

    def rows(self, sink: str | None = None, batch: int | None = None) -> list[dict[str, Any]]:
        """The rows that a sink has written in all, or in one batch; in mode complete, the last table."""
        return [dict(row) for row in self._run(sink).rows(batch)]

    def columns(self, sink: str | None = None) -> tuple[str, ...]:
        """The columns of a sink's rows."""
        return self._run(sink).columns

    def advance(self, time: datetime | str) -> None:
        """Advance the watermark as if every source had a row of that time, without adding one.

        Restarts each query; of several watermarks the earliest counts, as in Spark.
        """
        moment = parse_time(time) if isinstance(time, str) else time
        self.batches += 1
        moment = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
        for run in self._runs.values():
            delays = [source.watermark.delay for source in run.sources.values() if source.watermark]
            if not delays:
                raise CallError(f"sink {run.sink.name!r} reads no source with a watermark; feed a later row instead")
            policy = self._spark.conf.get("spark.sql.streaming.multipleWatermarkPolicy", "min")
            delay = (min if policy == "max" else max)(map(_milliseconds, delays))
            run.advance(int(moment.timestamp() * 1000) - delay)

    def restart(self) -> None:
        """Restart every query from its checkpoint."""
        for run in self._runs.values():
            run.restart()

    def crash(self, at: Moment = "after_write") -> None:
        """Crash the queries in the next batch, after the write or before the commit, and restart them."""
        _one_of("moment of a crash", at, MOMENTS)
        self._crash = at

    @property
    def bad_records(self) -> dict[str, int]:
        """The count of bad records of each source so far."""
        found: dict[str, int] = {}
        for run in self._runs.values():
            for name, count in run.bad_records.items():
                found[name] = max(count, found.get(name, 0))
        return found

    def late_rows(self, sink: str | None = None) -> int:
        """The count of rows that arrived after the watermark and were dropped."""
        return self._run(sink).late_rows

    def state_rows(self, sink: str | None = None) -> int:
        """The count of rows in the state of a sink's query after the last batch."""
        return self._run(sink).state_rows

    def close(self) -> None:
        """Stop the queries and remove their files."""
        for run in getattr(self, "_runs", {}).values():
            run.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _start(self, names: Sequence[str] | None) -> dict[str, SinkRun]:
        known = {sink.name: sink for sink in self._pipeline.sinks}
        wanted = [known[_one_of("sink", name, known)] for name in (known if names is None else names)]
        read = {name for sink in wanted for name in self._pipeline.upstream(sink.reads)}
        sources = [source for source in self._pipeline.sources if source.name in read]
        self._files = {
            source.name: Files(self._spark, source, self._folder / "files" / source.name)
            for source in sources
            if isinstance(source.connector, FileSource)
        }
        self._tables = {
            source.name: Table(self._spark, source)
            for source in sources
            if source.static and source.name not in self._files
        }
        # `use` handles the modules in the pipeline's folder; an empty folder keeps the engine from sending them too.
        (self._folder / "empty").mkdir()
        quiet = replace(self._pipeline, folder=str(self._folder / "empty"))
        self._runs = {}
        for sink in wanted:
            run = SinkRun(quiet, sink, self._spark, self._files, self._folder / "storage", self._tables)
            self._runs[sink.name] = run
            run.start()
        return self._runs

    def _put(self, tables: Mapping[str, Sequence[Given]]) -> None:
        known: dict[str, Files | Table] = {**self._files, **self._tables}
        read = {name: rows for name, rows in tables.items() if name in known}
        for name, rows in read.items():
            known[name].put(rows)
        sources = {source.name: source for source in self._pipeline.sources if source.name in read}
        for run in self._runs.values() if sources else ():
            run.refresh(sources)

    def _run(self, sink: str | None) -> SinkRun:
        if sink is None and len(self._runs) == 1:
            return next(iter(self._runs.values()))
        if sink is None:
            raise CallError(f"this pipeline has several sinks; name one: {join_words(self._runs)}")
        return self._runs[_one_of("sink", sink, self._runs)]


@cache
def _root() -> str:
    # Removed again at exit: state store maintenance can still write after its query has stopped.
    folder = tempfile.mkdtemp(prefix="penstock-bench-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _new_session(spark: SparkSession, pipeline: Pipeline) -> SparkSession:
    """A separate session with its own views and settings, in the same Spark application."""
    own = spark.newSession()
    for key, value in pipeline.spark.items():
        if key.startswith("spark.sql.") and own.conf.isModifiable(key):
            own.conf.set(key, value)
    # One partition: a test has few rows, and empty tasks cost seconds.
    own.conf.set("spark.sql.shuffle.partitions", "1")
    return own


def _one_of(what: str, name: str, known: Sequence[str] | Mapping[str, object]) -> str:
    if name not in known:
        raise CallError(f"unknown {what} {name!r}; {did_you_mean(name, known)}")
    return name


def _milliseconds(delay: str) -> int:
    words = delay.split()
    units = (
        timedelta(**{f"{unit.rstrip('s')}s": int(count)}) for count, unit in zip(words[::2], words[1::2], strict=True)
    )
    return sum(units, timedelta()) // timedelta(milliseconds=1)


#: Modules imported for tests, by name, with their file's modification time.
_imported: dict[str, tuple[Path, int]] = {}
_lock = threading.Lock()


def use(pipeline: Pipeline) -> None:
    """Make `import` in steps find the modules in the pipeline's folder, in this process and in Spark's workers.

    One session serves pipelines of several folders, and two folders may both have a `model.py`.
    """
    folder = Path(pipeline.folder).resolve()
    modules = {path.stem: path for path in folder.glob("*.py")}
    with _lock:
        _forget(modules)
        if str(folder) in sys.path:
            sys.path.remove(str(folder))
        sys.path.insert(0, str(folder))
        _import_steps(pipeline, modules)
        _send(modules)


def _forget(modules: dict[str, Path]) -> None:
    """Drop modules of other folders with the same names, and all of this folder's if one changed."""
    importlib.invalidate_caches()
    stale = {name for name, (path, stamp) in _imported.items() if modules.get(name) == path and _stamp(path) != stamp}
    foreign = {name for name in modules if name in _imported and _imported[name][0] != modules[name]}
    here = {name for name in modules if _imported.get(name, (None,))[0] == modules[name]} if stale else set()
    for name in foreign | stale | here:
        module = sys.modules.pop(name, None)
        path, _ = _imported.pop(name)
        if module is not None:
            # A .pyc is matched by its source's mtime in seconds and size: two quick saves can look the same.
            Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)


def _import_steps(pipeline: Pipeline, modules: dict[str, Path]) -> None:
    from pyspark import cloudpickle

    for step in pipeline.steps:
        for value in step.what.model_dump().values():
            name = value.partition(":")[0] if isinstance(value, str) else ""
            if name in modules:
                # Building the step reports what is wrong with the module.
                with contextlib.suppress(Exception):
                    importlib.import_module(name)
    for name, path in modules.items():
        module = sys.modules.get(name)
        if module is not None and Path(getattr(module, "__file__", None) or "").resolve() == path:
            _imported[name] = (path, _stamp(path))
            # By value, because a reused worker has the module of an earlier test.
            cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def _send(modules: dict[str, Path]) -> None:
    from pyspark import SparkFiles

    # Not `addPyFile`, which rejects a second file of the same name.
    root = Path(SparkFiles.getRootDirectory())
    for path in modules.values():
        if not path.name.startswith("test_") and path.name != "conftest.py":
            shutil.copy(path, root / path.name)


def _stamp(path: Path) -> int:
    return path.stat().st_mtime_ns if path.exists() else 0
