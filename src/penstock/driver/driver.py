"""The driver: all four hops, then waiting for queries that fail and for the order to drain."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError, Py4JJavaError

from penstock import jars
from penstock.driver.channel import StartOrder, SupervisorChannel
from penstock.driver.heartbeat import Heartbeat
from penstock.driver.preflight import Preflight, find_gaps
from penstock.driver.recorder import append_batch, sink_storages
from penstock.driver.watches import ClockWatch, DiskWatch, StallWatch, TopicWatch, probe_sources
from penstock.engine import prepare, start
from penstock.engine.queries import Queries
from penstock.errors import CheckError, PenstockError, RunError, UnreachableError
from penstock.events import EventLog, describe
from penstock.model import Pipeline, errors, fingerprint
from penstock.pipeline import load_checked
from penstock.spark.internals import DRAIN, find_missing, jvm_process, wait_for_listeners
from penstock.spark.session import cores, local_dir, session
from penstock.storage.layout import Storage
from penstock.storage.lease import must_hold
from penstock.storage.verify import SinkStorage
from penstock.supervise.protocol import RunOptions
from penstock.watch.emitter import EventEmitter, StateLimit, default_limit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_POLL_SECONDS = 0.25
_ALL_CORES = "local[*]"


def run(options: RunOptions, order: StartOrder, channel: SupervisorChannel) -> int:
    """Run one driver to its end, which is sent to the supervisor; the exit code is 0 or 1."""
    heartbeat = Heartbeat(channel, order, options.drain_seconds)
    try:
        pipeline = _load(options, order)
        with heartbeat:
            _Driver(options, order, channel, heartbeat, _prepare(pipeline, options, channel)).run()
    except Exception as error:
        if options.verbose:
            channel.print_status(traceback.format_exc())
        is_ours = isinstance(error, PenstockError)
        reason = str(error) if is_ours else f"{type(error).__name__}: {error}"
        heartbeat.end(well=False, reason=reason, retry=error.retry if isinstance(error, PenstockError) else True)
        return 1
    heartbeat.end(well=True)
    return 0


def _load(options: RunOptions, order: StartOrder) -> Pipeline:
    """The pipeline that the supervisor has checked; an error if the file is another one by now."""
    pipeline, findings = load_checked(options.file, options.master)
    if errors(findings):
        raise CheckError(errors(findings))
    if fingerprint(pipeline) != order.fingerprint or Storage.of(pipeline).url != order.storage:
        fix = "stop the pipeline and run it again"
        raise RunError(f"{options.file} has changed since the run began, and a restart must not mix the two; {fix}")
    return pipeline


def _prepare(pipeline: Pipeline, options: RunOptions, channel: SupervisorChannel) -> Pipeline:
    """As `prepare`; an address that has never answered is more likely misspelled than down, so it is tried once."""
    try:
        return prepare(pipeline, channel.print_status, options.wait_seconds)
    except UnreachableError as error:
        if options.once or Storage.of(pipeline).is_claimed(pipeline):
            raise
        fix = "this pipeline has never run, so it is not retried; --wait SECONDS waits longer"
        raise RunError(f"{error}\n{fix}", retry=False) from error


def open_session(pipeline: Pipeline, *, verbose: bool, keep: Sequence[int] = ()) -> SparkSession:
    """A session with the file's settings; its JVM holds the files `keep` open for as long as it lives."""
    ours = {} if "master" in pipeline.spark else _double_the_tasks(pipeline)
    asked = {**ours, **pipeline.session_settings}
    return session(
        pipeline.name,
        master=asked.get("master", _ALL_CORES),
        asked=asked,
        jars=jars.paths(pipeline.jar_groups),
        log=Storage.of(pipeline).logs / "driver.log",
        verbose=verbose,
        keep=keep,
    )


def _double_the_tasks(pipeline: Pipeline) -> dict[str, str]:
    """Targets that are written in parallel wait for disks, Python and each other: twice as many tasks as cores."""
    if all(len(sink.targets) == 1 for sink in pipeline.sinks):
        return {}
    count = cores(_ALL_CORES)
    return {"master": f"local[{2 * count}]", "spark.sql.shuffle.partitions": str(count)}


@dataclass
class _Driver:
    options: RunOptions
    order: StartOrder
    channel: SupervisorChannel
    heartbeat: Heartbeat
    pipeline: Pipeline
    storage: Storage = field(init=False)
    log: EventLog = field(init=False)
    emitter: EventEmitter = field(init=False)
    sinks: dict[str, SinkStorage] = field(init=False)
    topics: TopicWatch = field(init=False)
    disks: DiskWatch = field(init=False)
    stalls: StallWatch = field(init=False)
    clock: ClockWatch = field(default_factory=ClockWatch)
    queries: Queries | None = None

    def __post_init__(self) -> None:
        self.storage = Storage.of(self.pipeline)
        self.storage.claim(self.pipeline)
        self.log = EventLog(self.storage.events)
        tables = [source.name for source in self.pipeline.sources if source.static]
        limit = StateLimit(self.pipeline.state_limit or default_limit())
        self.emitter = EventEmitter(self.log, self.channel.print_status, limit, tables, self.pipeline.history_seconds)
        self.sinks = sink_storages(self.pipeline, self.storage)
        self.stalls = StallWatch(self._emit, lambda sink: probe_sources(self.pipeline, sink))
        self.topics = TopicWatch(self.pipeline, self.channel.wake.set, self._emit)
        self.disks = DiskWatch.of(self.storage.url, local_dir(), self._emit)

    def run(self) -> None:
        """From the session to its end."""
        Preflight(self.pipeline, self.storage, self._emit).run()
        if self.channel.draining:
            return
        self.channel.print_status(f"{self.pipeline.name}: starting Spark")
        spark = open_session(self.pipeline, verbose=self.options.verbose, keep=self.order.files)
        self.heartbeat.watch_jvm(jvm_process(spark))
        try:
            self._serve(spark)
        except (Py4JError, ConnectionError) as error:
            if not isinstance(error, Py4JJavaError):
                self.heartbeat.wait_for_jvm_exit()
            raise
        finally:
            self.heartbeat.expect_exit()
            spark.stop()
            self.log.close()

    def _serve(self, spark: SparkSession) -> None:
        missing = find_missing(spark, DRAIN)
        if missing:
            self._emit("internals_missing", what_for="draining", names=missing)
        queries = start(
            self.pipeline,
            spark,
            once=self.options.once,
            storage=self.storage,
            emit=self.emitter.emit,
            guard=lambda: must_hold(self.order.lease, self.order.token),
            on_progress=self._take_progress,
            wake=self.channel.wake,
        )
        self.queries = queries
        self._append("started", sinks=queries.names, attempt=self.order.attempt)
        self.channel.send("started", sinks=queries.names)
        self.heartbeat.watch_queries(lambda: self.stalls.look(queries.status()))
        self.topics.start()
        self.disks.start()
        failure: Exception | None = None
        try:
            self._wait(queries)
        except Exception as error:
            self._append("failed", reason=str(error))
            failure = error
        failure = self._finish(queries, failure)
        # Before "drained": batches are reported by a thread of Spark's.
        if not wait_for_listeners(spark, self.options.drain_seconds):
            self._emit("reports_missing", seconds=self.options.drain_seconds)
        queries.stop()
        if self.channel.draining and failure is None:
            self._append("drained")
        self._append("stopped")
        if failure is not None:
            raise failure

    def _finish(self, queries: Queries, failure: Exception | None) -> Exception | None:
        """End every query between two batches, also when another one has failed: no batch is cut on purpose.

        Returns why the driver ends: a batch may fail while it is being waited for.
        """
        self.topics.stop()
        self.disks.stop()
        if self.channel.draining:
            self._append("draining", why=self.channel.draining)
        late = queries.drain(self.options.drain_seconds)
        if late:
            names = ", ".join(late)
            says = f"the running batch of {names} did not end within {self.options.drain_seconds:.0f} s"
            fix = "it was abandoned, and a restart repeats it; --drain-seconds allows more"
            self._append("abandoned", sinks=late)
            # What runs in the batch cannot be interrupted, so we do not wait for it.
            retry = failure.retry if isinstance(failure, PenstockError) else True
            self.heartbeat.abandon(str(failure) if failure else f"{says}; {fix}", retry=retry)
        return failure or next((error for _, error in queries.failures()), None)

    def _take_progress(self, progress: dict[str, Any]) -> None:
        """Append a batch to the journal and to the event log."""
        self.stalls.take_batch(progress)
        self.channel.send("batch", progress=progress)
        try:
            known = self.sinks.get(progress["name"])
            if known is not None:
                read = self.queries.batch_files(known.name, progress["batchId"]) if self.queries else {}
                append_batch(known, progress, read)
            self.emitter.emit_batch(progress)
            for facts in find_gaps(self.pipeline, progress):
                self._emit("gap", **facts)
        except OSError as error:
            # Disk full: the next start journals what was committed without an entry.
            self.channel.print_status(f"{progress['name']}: batch {progress['batchId']} is not in the journal: {error}")
        except UnreachableError as error:
            says = f"whether batch {progress['batchId']} has gaps is not known: {error}"
            self.channel.print_status(f"{progress['name']}: {says}")

    def _append(self, what: str, **facts: Any) -> None:
        """Append to the event log; a full disk must not hide why the driver ends."""
        try:
            self.log.append(what, **facts)
        except OSError as error:
            self.channel.print_status(f"the event log cannot be written: {error.strerror or error}")

    def _emit(self, what: str, **facts: Any) -> None:
        self._append(what, **facts)
        self.channel.print_status(f"{self.pipeline.name}: {describe({'what': what, **facts})}")

    def _wait(self, queries: Queries) -> None:
        """Return when all queries have ended or are to be drained; raise when one fails and cannot be restarted."""
        while True:
            if self.channel.draining:
                return
            if self.topics.failure is not None:
                raise self.topics.failure
            back = self.clock.set_back()
            if back:
                again = queries.restart_interval_triggers(self.options.drain_seconds)
                self._emit("clock_set_back", seconds=round(back), sinks=again)
            self._restart_queries(queries)
            if queries.have_ended and not queries.failures():
                return
            # Set when a query ends and by an order; the bound is for what sets nothing.
            self.channel.wake.wait(_POLL_SECONDS)
            self.channel.wake.clear()

    def _restart_queries(self, queries: Queries) -> None:
        for name, error in queries.failures():
            is_worth_it = error.retry and not self.options.once
            if not is_worth_it or not queries.may_restart(name, self.pipeline.restart.healthy_seconds):
                raise error
            self._emit("query_restarting", sink=name, reason=str(error))
            queries.restart(name)
