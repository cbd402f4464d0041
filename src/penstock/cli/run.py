"""penstock run: the supervisor. It has no Spark in it; the driver is its child."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from penstock.cli import said
from penstock.cli._stderr import Talk
from penstock.model import Pipeline
from penstock.spark.local_dir import remove_leftovers
from penstock.supervise.process import DriverProcess
from penstock.supervise.protocol import RunOptions
from penstock.text import Waiting
from penstock.watch.snapshot import snapshot
from penstock.watch.terminal import Total, line, summary, table

if TYPE_CHECKING:
    from rich.live import Live

    from penstock.events import EventLog
    from penstock.model import Pipeline
    from penstock.storage.layout import Storage
    from penstock.storage.lease import Lease
    from penstock.supervise.supervisor import End, State


@click.command(short_help="Run a pipeline until it is stopped.")
@click.argument("file", default=".", type=click.Path())
@click.option("--once", is_flag=True, help="Process what is there now, then end.")
@click.option("--master", help="Where Spark runs: local[*], spark://host:7077, yarn, k8s://... (default: local[*]).")
@click.option(
    "--wait", "wait_seconds", default=30.0, show_default=True, help="Seconds to wait for brokers at the start."
)
@click.option(
    "--drain-seconds", default=60.0, show_default=True, help="Seconds that running batches have to end when stopped."
)
@click.option("--new-checkpoint", is_flag=True, help="Begin anew although earlier batches are on record.")
@click.option("--health-port", type=click.IntRange(1, 65535), help="Serve /health and /ready here, on loopback.")
@click.option("--health-host", default="127.0.0.1", show_default=True, help="Serve them on this address instead.")
@click.option("--health-name", "health_names", multiple=True, help="A host name that probes use, besides localhost.")
@click.option(
    "--page-port", type=click.IntRange(0, 65535), help="Serve the live page and /metrics here, on loopback; 0: any."
)
@click.option("-v", "--verbose", is_flag=True, help="Show Spark's own log, and tracebacks.")
def command(
    health_port: int | None, health_host: str, health_names: tuple[str, ...], page_port: int | None, **asked: Any
) -> None:
    """Run the pipeline in FILE (or a folder with one) and keep it running; Ctrl-C drains it.

    A restart continues from the checkpoint, in the pipeline's storage.

    Example: penstock run trades.yaml --once
    """
    # Checkpoints, state and events are for this user alone; the driver and its JVM inherit this.
    os.umask(0o077)
    orders = RunOptions(**asked)
    # Before anything else: it imports Spark while the file is checked and the lease is taken.
    first = DriverProcess(orders)
    talk = Talk()
    try:
        health = (health_host, health_port, health_names) if health_port else None
        end = _supervise(orders, first, talk, _Doors(health, page_port))
    except Exception:
        if orders.verbose:
            import traceback

            talk.say(traceback.format_exc())
        talk.flush()
        raise
    finally:
        first.end()
        remove_leftovers()
    if not end.well:
        talk.say(end.reason)
    talk.flush()
    sys.exit(0 if end.well else 1)


def checked(file: str, master: str | None, say: Callable[[str], None]) -> Pipeline:
    """The pipeline of a file that has no errors; its warnings are said."""
    from penstock.checks import check
    from penstock.errors import CheckError
    from penstock.load import load

    pipeline = load(file)
    if master:
        pipeline = replace(pipeline, spark={**pipeline.spark, "master": master})
    findings = check(pipeline)
    for finding in findings:
        if finding.severity == "warning":
            say(said(finding))
    errors = [finding for finding in findings if finding.severity == "error"]
    if errors:
        raise CheckError(errors)
    return pipeline


@dataclass(frozen=True)
class _Doors:
    """Where a supervisor can be asked how it is."""

    health: tuple[str, int, tuple[str, ...]] | None
    page: int | None

    @contextmanager
    def open(self, state: State, pipeline: Pipeline, storage: Storage, talk: Talk) -> Iterator[None]:
        """Until the block ends; what nobody asked for is not even imported."""
        with ExitStack() as stack:
            if self.health is not None:
                from penstock.supervise.health import serving

                stack.enter_context(serving(state, *self.health))
            if self.page is not None:
                from penstock.page import served
                from penstock.page.server import Where

                where = Where(port=self.page, port_option="--page-port")
                page = stack.enter_context(served(storage.root, where, only=pipeline.name))
                talk.say(f"page: {page.invitation(terminal=sys.stderr.isatty())}")
            if pipeline.webhooks:
                from penstock.watch.webhooks import posting

                stack.enter_context(posting(pipeline.webhooks, pipeline.name, f"{storage.url}/events", talk.say))
            yield


def _supervise(orders: RunOptions, first: DriverProcess, talk: Talk, doors: _Doors) -> End:
    pipeline = checked(orders.file, orders.master, talk.say)
    from penstock.cli.run import screen
    from penstock.events import EventLog
    from penstock.storage.layout import Storage
    from penstock.storage.lease import Taking
    from penstock.supervise.supervisor import State, Supervisor

    storage = Storage.of(pipeline)
    storage.refuse_if_shared(pipeline.places.get(("storage",), pipeline.at))
    lease = Taking(storage.lease, talk.say, orders.drain_seconds).take()
    log = EventLog(f"{storage.url}/events")
    tell = _teller(log, talk)
    state = State(pipeline.name, tuple(sink.name for sink in pipeline.sinks))
    try:
        tell("lease_taken", token=lease.holder.token, pid=lease.holder.pid, host=lease.holder.host)
        with screen(pipeline, talk) as shown:
            supervisor = Supervisor(
                start=lambda: DriverProcess(orders),
                lease=lease,
                policy=pipeline.restart,
                state=state,
                tell=tell,
                show=shown.report,
                restarting=not orders.once,
                drain_seconds=orders.drain_seconds,
            )
            _obey_signals(supervisor.ask_to_stop)
            with doors.open(state, pipeline, storage, talk):
                end = supervisor.run(first)
        shown.say_totals()
    finally:
        first.end()
        _release(lease, tell)
        log.close()
    return end


def _release(lease: Lease, tell: Callable[..., None]) -> None:
    try:
        lease.release()
    except OSError as error:
        # The lock is free all the same, which is what counts on this machine.
        tell("lease_beat_failed", reason=str(error))
    tell("lease_released", token=lease.holder.token)


def _teller(log: EventLog, talk: Talk) -> Callable[..., None]:
    from penstock.watch.history import line

    def tell(what: str, **facts: Any) -> None:
        said = line({"what": what, **facts}) if what in _SAID else None
        if said:
            talk.say(said)
        try:
            log.record(what, **facts)
        except OSError as error:
            # A full disk must not end the supervisor: it is what brings the pipeline back when there is space again.
            talk.say(f"the event log cannot be written: {error.strerror or error}")

    return tell


_SAID = ("restarting", "draining", "stopping_now", "gave_up", "lease_lost", "lease_beat_failed")


def _obey_signals(ask: Callable[[str], None]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: ask(signal.Signals(number).name))
    # The terminal is gone, the pipeline stays: whoever wants it to end says so.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


@dataclass
class Screen:
    """Takes the driver's reports."""

    totals: dict[str, Total]
    talk: Talk
    live: Live | None = None
    began: bool = False
    """Whether its queries were ever started."""

    def report(self, report: dict[str, Any]) -> None:
        """Show what matters of a report."""
        if report["what"] == "said":
            self._wait("")
            self.talk.say(report["text"])
        elif report["what"] == "waiting":
            self._wait(report["text"])
        elif report["what"] == "started":
            self.began = True
        elif report["what"] == "batch":
            self._batch(report["progress"])

    def say_totals(self) -> None:
        """A line for each query at the end; nothing of a run that never began."""
        for total in self.totals.values() if self.began else ():
            self.talk.say(summary(total))

    def _wait(self, text: str) -> None:
        if self.live is not None:
            self.live.update(table(self.totals.values(), text))
        elif text:
            self.talk.say(Waiting(text))

    def _batch(self, progress: dict[str, Any]) -> None:
        seen = snapshot(progress)
        self.totals[seen.query] = self.totals.get(seen.query, Total(seen.query)).and_then(seen)
        if self.live is not None:
            self.live.update(table(self.totals.values()))
        elif seen.rows_in:
            self.talk.say(line(seen))


@contextmanager
def screen(pipeline: Pipeline, talk: Talk) -> Iterator[Screen]:
    """A screen for one run."""
    totals = {sink.name: Total(sink.name) for sink in pipeline.sinks}
    printing = any(connector.kind == "console" for connector in pipeline.connectors)
    if printing or not sys.stderr.isatty():
        yield Screen(totals, talk)
        return
    from rich.console import Console
    from rich.live import Live

    with Live(table(totals.values()), console=Console(stderr=True), refresh_per_second=4) as live:
        yield Screen(totals, talk, live)
