"""penstock run"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import click

from penstock.checks import check
from penstock.cli import say
from penstock.errors import CheckError
from penstock.load import load
from penstock.model import Pipeline
from penstock.watch.events import EventLog, this_process
from penstock.watch.report import Report
from penstock.watch.snapshot import snapshot
from penstock.watch.state import StateLimit, default_limit
from penstock.watch.terminal import Total, line, summary, table
from penstock.watch.webhooks import posting

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.live import Live


@click.command(short_help="Run a pipeline until it is stopped.")
@click.argument("file", default=".")
@click.option("--once", is_flag=True, help="Process what is there now, then end.")
@click.option("--master", help="Where Spark runs: local[*], spark://host:7077, yarn, k8s://... (default: local[*]).")
@click.option(
    "--wait", "wait_seconds", default=30.0, show_default=True, help="Seconds to wait for brokers at the start."
)
@click.option("-v", "--verbose", is_flag=True, help="Show Spark's own log, and tracebacks.")
def command(file: str, once: bool, master: str | None, wait_seconds: float, verbose: bool) -> None:
    """Run the pipeline in FILE (or a folder with one); Ctrl-C stops it cleanly.

    A restart continues from the checkpoint, in the pipeline's storage.

    Example: penstock run trades.yaml --once
    """
    try:
        run(file, once=once, master=master, wait_seconds=wait_seconds, verbose=verbose)
    except Exception:
        if verbose:
            import traceback

            say(traceback.format_exc())
        raise


def run(file: str, *, once: bool, master: str | None, wait_seconds: float, verbose: bool) -> None:
    """All four hops, then wait."""
    pipeline = load(file)
    if master:
        pipeline = replace(pipeline, spark={**pipeline.spark, "master": master})
    findings = check(pipeline)
    for finding in findings:
        if finding.severity == "warning":
            say(str(finding))
    errors = [finding for finding in findings if finding.severity == "error"]
    if errors:
        raise CheckError(errors)
    from penstock.engine import prepare
    from penstock.engine.storage import Storage

    stopping = threading.Event()
    prepared = prepare(pipeline, say, wait_seconds)
    Storage.of(prepared).claim(prepared)
    say(f"{pipeline.name}: starting Spark")
    spark = open_session(prepared, verbose=verbose)
    # Only now: Spark's own handler of Ctrl-C, set with the session, would cancel the running batch.
    _obey_signals(stopping)
    try:
        _run(prepared, spark, stopping, once=once)
    finally:
        spark.stop()


def open_session(pipeline: Pipeline, *, verbose: bool) -> SparkSession:
    """The session that a pipeline asks for, with the jars that its connectors need."""
    from penstock import jars
    from penstock.engine import session
    from penstock.engine.storage import Storage

    return session(
        pipeline.name,
        master=pipeline.spark.get("master", "local[*]"),
        asked=pipeline.session_settings,
        jars=jars.paths(pipeline.jar_groups),
        log=Storage.of(pipeline).logs / "driver.log",
        verbose=verbose,
    )


def _run(pipeline: Pipeline, spark: SparkSession, stopping: threading.Event, *, once: bool) -> None:
    from penstock.engine.run import listen, start, stop, wait
    from penstock.engine.storage import Storage

    storage = Storage.of(pipeline)
    ended = threading.Event()
    log = EventLog(f"{storage.url}/events")
    hooks = posting(pipeline.webhooks, pipeline.name, log.folder, say)
    with hooks, _screen(pipeline) as screen:
        tables = [source.name for source in pipeline.sources if source.static]
        limit = StateLimit(pipeline.state_limit or default_limit())
        report = Report(log, say, limit, tables, pipeline.history_seconds)

        def batch(progress: dict[str, Any]) -> None:
            screen.show(progress)
            report.batch(progress)

        listener = listen(spark, batch, ended)
        queries = start(pipeline, spark, once=once, storage=storage, tell=report.tell)
        log.record("started", sinks=[query.name for query in queries], **this_process())
        try:
            wait(pipeline, queries, ended, enough=stopping.is_set)
        except Exception as error:
            log.record("failed", reason=str(error))
            raise
        finally:
            stop(queries)
            spark._jsparkSession.sparkContext().listenerBus().waitUntilEmpty()
            spark.streams.removeListener(listener)
            log.record("stopped")
            log.close()
    for total in screen.totals.values():
        say(summary(total))


def _obey_signals(stopping: threading.Event) -> None:
    def ask(_number: int, _frame: Any) -> None:
        if stopping.is_set():
            sys.exit(130)
        say("stopping; once more to stop at once")
        stopping.set()

    signal.signal(signal.SIGINT, ask)
    signal.signal(signal.SIGTERM, ask)


@dataclass
class _Screen:
    """A line per batch, or a live table on a terminal that nothing else writes to."""

    totals: dict[str, Total]
    live: Live | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def show(self, progress: dict[str, Any]) -> None:
        seen = snapshot(progress)
        with self.lock:
            self.totals[seen.query] = self.totals.get(seen.query, Total(seen.query)).and_then(seen)
            if self.live is not None:
                self.live.update(table(self.totals.values()))
            elif seen.rows_in:
                say(line(seen))


@contextmanager
def _screen(pipeline: Pipeline) -> Iterator[_Screen]:
    totals = {sink.name: Total(sink.name) for sink in pipeline.sinks}
    printing = any(connector.kind == "console" for connector in pipeline.connectors)
    if printing or not sys.stderr.isatty():
        yield _Screen(totals)
        return
    from rich.console import Console
    from rich.live import Live

    with Live(table(totals.values()), console=Console(stderr=True), refresh_per_second=4) as live:
        yield _Screen(totals, live)
