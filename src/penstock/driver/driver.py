"""All four hops in the driver, then waiting: for queries that fail, and for the word to drain."""

from __future__ import annotations

import traceback
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError, Py4JJavaError

from penstock.driver.channel import StartOrder, SupervisorChannel
from penstock.driver.heartbeat import Heartbeat
from penstock.driver.preflight import Preflight, gaps
from penstock.driver.recorder import append_batch, sink_storages
from penstock.driver.watches import ClockWatch, StallWatch, TopicWatch, probe
from penstock.engine import build, prepare
from penstock.engine.drain import wait_for_reports
from penstock.engine.queries import Queries
from penstock.engine.run import Built, listen, to_targets
from penstock.errors import PenstockError, RunError, UnreachableError
from penstock.events import EventLog
from penstock.load import load
from penstock.model import Pipeline
from penstock.spark.opening import open_session
from penstock.storage.layout import Storage
from penstock.storage.lease import must_hold
from penstock.storage.verify import SinkStorage
from penstock.supervise.protocol import RunOptions
from penstock.watch.history import line
from penstock.watch.report import Report
from penstock.watch.state import StateLimit, default_limit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOK_SECONDS = 0.25


def run(orders: RunOptions, go: StartOrder, ears: SupervisorChannel) -> int:
    """One driver's life; its end is reported, and the exit code is 0 or 1."""
    vitals = Heartbeat(ears, go, orders.drain_seconds)
    try:
        pipeline = load(orders.file)
        if orders.master:
            pipeline = replace(pipeline, spark={**pipeline.spark, "master": orders.master})
        with vitals:
            _Driver(orders, go, ears, vitals, _prepare(pipeline, orders, ears)).run()
    except Exception as error:
        if orders.verbose:
            ears.say(traceback.format_exc())
        ours = isinstance(error, PenstockError)
        reason = str(error) if ours else f"{type(error).__name__}: {error}"
        vitals.end(well=False, reason=reason, retry=error.retry if isinstance(error, PenstockError) else True)
        return 1
    vitals.end(well=True)
    return 0


def _prepare(pipeline: Pipeline, orders: RunOptions, ears: SupervisorChannel) -> Pipeline:
    """As `prepare`; an address that has never answered is more likely misspelled than away, so it is tried once."""
    try:
        return prepare(pipeline, ears.say, orders.wait_seconds)
    except UnreachableError as error:
        if orders.once or Storage.of(pipeline).is_claimed(pipeline):
            raise
        fix = "this pipeline has never run, so it is not tried again; --wait SECONDS waits longer"
        raise RunError(f"{error}\n{fix}", retry=False) from error


@dataclass
class _Driver:
    orders: RunOptions
    go: StartOrder
    ears: SupervisorChannel
    vitals: Heartbeat
    pipeline: Pipeline
    storage: Storage = field(init=False)
    log: EventLog = field(init=False)
    report: Report = field(init=False)
    known: dict[str, SinkStorage] = field(init=False)
    identities: TopicWatch = field(init=False)
    stalls: StallWatch = field(init=False)
    clock: ClockWatch = field(default_factory=ClockWatch)

    def __post_init__(self) -> None:
        self.storage = Storage.of(self.pipeline)
        self.storage.claim(self.pipeline)
        self.log = EventLog(f"{self.storage.url}/events")
        tables = [source.name for source in self.pipeline.sources if source.static]
        limit = StateLimit(self.pipeline.state_limit or default_limit())
        self.report = Report(self.log, self.ears.say, limit, tables, self.pipeline.history_seconds)
        self.known = sink_storages(self.pipeline, self.storage)
        self.stalls = StallWatch(self._tell, lambda sink: probe(self.pipeline, sink))
        self.identities = TopicWatch(self.pipeline, self.ears.wake.set)

    def run(self) -> None:
        """From the session to its end."""
        Preflight(self.pipeline, self.storage, self._tell, self.orders.new_checkpoint).run()
        if self.ears.draining:
            return
        self.ears.say(f"{self.pipeline.name}: starting Spark")
        spark = open_session(self.pipeline, verbose=self.orders.verbose, keep=self.go.files)
        self.vitals.watch_jvm(spark)
        try:
            self._serve(spark)
        except (Py4JError, ConnectionError) as error:
            if not isinstance(error, Py4JJavaError):
                self.vitals.wait_for_jvm_exit()
            raise
        finally:
            self.vitals.expect_exit()
            spark.stop()
            self.log.close()

    def _serve(self, spark: SparkSession) -> None:
        def guard() -> None:
            must_hold(self.go.lease, self.go.token)

        write = to_targets(self.pipeline, self.storage, self.report.tell, guard)
        streams = build(self.pipeline, spark)
        built = Built(self.pipeline, streams, self.storage, write, self.orders.once, self.report.tell)
        queries = Queries(built, spark)

        def batch(progress: dict[str, Any]) -> None:
            queries.batch(progress["name"])
            self.stalls.batch(progress)
            self.ears.report("batch", progress=progress)
            self._keep(progress)

        listener = listen(spark, batch, self.ears.wake)
        queries.start(self.report.tell)
        self._note("started", sinks=queries.names, attempt=self.go.attempt)
        self.ears.report("started", sinks=queries.names)
        self.vitals.watch_queries(lambda: self.stalls.look(queries.look()))
        self.identities.start()
        failed: Exception | None = None
        try:
            self._wait(queries)
        except Exception as error:
            self._note("failed", reason=str(error))
            failed = error
        failed = self._finish(queries, failed)
        # Before it is said that the pipeline has drained: a batch is reported by a thread of Spark's.
        if not wait_for_reports(spark, self.orders.drain_seconds):
            self._tell("reports_missing", seconds=self.orders.drain_seconds)
        spark.streams.removeListener(listener)
        if self.ears.draining and failed is None:
            self._note("drained")
        self._note("stopped")
        if failed is not None:
            raise failed

    def _finish(self, queries: Queries, failed: Exception | None) -> Exception | None:
        """End every query between two batches, also when another one has failed: no batch is cut on purpose.

        Gives why the driver ends: a batch may fail while it is being waited for.
        """
        self.identities.stop()
        if self.ears.draining:
            self._note("draining", why=self.ears.draining)
        late = queries.drain(self.orders.drain_seconds)
        if late:
            names = ", ".join(late)
            says = f"the running batch of {names} did not end within {self.orders.drain_seconds:.0f} s"
            fix = "it was abandoned, and a restart repeats it; --drain-seconds allows more"
            self._note("abandoned", sinks=late)
            # What runs in it cannot be interrupted, so nobody waits for it.
            retry = failed.retry if isinstance(failed, PenstockError) else True
            self.vitals.abandon(str(failed) if failed else f"{says}; {fix}", retry=retry)
        return failed or next((error for _, error in queries.failed()), None)

    def _keep(self, progress: dict[str, Any]) -> None:
        """Put a batch on record, and into the event log."""
        try:
            known = self.known.get(progress["name"])
            if known is not None:
                append_batch(known, progress)
            self.report.batch(progress)
            for facts in gaps(self.pipeline, progress):
                self._tell("gap", **facts)
        except OSError as error:
            # A full disk: the next start puts on record what was committed without one.
            self.ears.say(f"{progress['name']}: batch {progress['batchId']} is not on record: {error}")
        except UnreachableError as error:
            self.ears.say(f"{progress['name']}: whether batch {progress['batchId']} has gaps is not known: {error}")

    def _note(self, what: str, **facts: Any) -> None:
        """Write a fact down; a full disk must not hide why the driver ends."""
        try:
            self.log.record(what, **facts)
        except OSError as error:
            self.ears.say(f"the event log cannot be written: {error.strerror or error}")

    def _tell(self, what: str, **facts: Any) -> None:
        self._note(what, **facts)
        self.ears.say(f"{self.pipeline.name}: {line({'what': what, **facts})}")

    def _wait(self, queries: Queries) -> None:
        """Return when all queries have ended or are to be drained; raise when one fails and can not be mended here."""
        while True:
            if self.ears.draining:
                return
            if self.identities.changed is not None:
                raise self.identities.changed
            back = self.clock.set_back()
            if back:
                again = queries.restart_timed(self.orders.drain_seconds)
                self._tell("clock_set_back", seconds=round(back), sinks=again)
            self._mend(queries)
            if queries.have_ended and not queries.failed():
                return
            # Woken when a query ends and by an order; the bound is for what nobody tells.
            self.ears.wake.wait(_LOOK_SECONDS)
            self.ears.wake.clear()

    def _mend(self, queries: Queries) -> None:
        for name, error in queries.failed():
            alone = error.retry and not self.orders.once
            if not alone or not queries.may_restart(name, self.pipeline.restart.healthy_seconds):
                raise error
            self._tell("query_restarting", sink=name, reason=str(error))
            queries.restart(name)
