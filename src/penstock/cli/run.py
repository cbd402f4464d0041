"""penstock run: the supervisor, without Spark; the driver is a child process."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from penstock.cli import format_finding
from penstock.cli._stderr import NonBlockingStderr
from penstock.errors import TRY_AGAIN, PenstockError
from penstock.model import Pipeline, errors
from penstock.spark.session import remove_leftovers
from penstock.supervise.protocol import RunOptions
from penstock.supervise.supervisor import DriverProcess
from penstock.text import Waiting
from penstock.watch.snapshot import snapshot
from penstock.watch.terminal import Total, line, summary, totals_table

if TYPE_CHECKING:
    from rich.live import Live

    from penstock.events import EventLog
    from penstock.storage.layout import Storage
    from penstock.storage.lease import Lease
    from penstock.supervise.supervisor import End, State


@click.command(short_help="Run a pipeline until it is stopped.")
@click.argument("file", default=".", type=click.Path())
@click.option("--once", is_flag=True, help="Process the available data, then exit.")
@click.option("--master", help="Where Spark runs: local[*], spark://host:7077, yarn, k8s://... (default: local[*]).")
@click.option(
    "--wait", "wait_seconds", default=30.0, show_default=True, help="Seconds to wait for brokers at start-up."
)
@click.option("--drain-seconds", default=60.0, show_default=True, help="Seconds for running batches to finish on stop.")
@click.option(
    "--health-port", type=click.IntRange(1, 65535), help="Serve /health and /ready on this port, on loopback."
)
@click.option("--health-host", default="127.0.0.1", show_default=True, help="Serve them on this address instead.")
@click.option(
    "--health-name", "health_names", multiple=True, help="A host name that probes use, in addition to localhost."
)
@click.option(
    "--page-port",
    type=click.IntRange(0, 65535),
    help="Serve the live page and /metrics on this port, on loopback; 0: any free one.",
)
@click.option("-v", "--verbose", is_flag=True, help="Show Spark's log and tracebacks.")
def command(
    health_port: int | None, health_host: str, health_names: tuple[str, ...], page_port: int | None, **asked: Any
) -> None:
    """Run the pipeline in FILE (or in a folder) and keep it running; Ctrl-C drains it.

    A restart continues from the checkpoint in the pipeline's storage.

    Example: penstock run trades.yaml --once
    """
    # Checkpoints, state and events are private to this user; the driver and its JVM inherit this.
    os.umask(0o077)
    run_options = RunOptions(**asked)
    # First, so that it imports Spark while the file is checked and the lease is taken.
    first = DriverProcess(run_options)
    stderr = NonBlockingStderr()
    try:
        health = (health_host, health_port, health_names) if health_port else None
        end = _supervise(run_options, first, stderr, Endpoints(health, page_port))
    except Exception as error:
        if isinstance(error, PenstockError) and error.retry:
            error.exit_code = TRY_AGAIN
        if run_options.verbose:
            import traceback

            stderr.print_status(traceback.format_exc())
        stderr.flush()
        raise
    finally:
        first.end()
        remove_leftovers()
    if not end.well:
        stderr.print_status(end.reason)
    stderr.flush()
    sys.exit(end.exit_code)


def load_and_warn(file: str, master: str | None, warn: Callable[[str], None]) -> Pipeline:
    """Load and check a file; print its warnings, raise its errors."""
    from penstock.errors import CheckError
    from penstock.pipeline import load_checked

    pipeline, findings = load_checked(file, master)
    for finding in findings:
        if finding.severity == "warning":
            warn(format_finding(finding))
    if wrong := errors(findings):
        raise CheckError(wrong)
    return pipeline


@dataclass(frozen=True)
class Endpoints:
    """The HTTP endpoints of a supervisor: health and page."""

    health: tuple[str, int, tuple[str, ...]] | None
    page: int | None

    @contextmanager
    def open(self, state: State, pipeline: Pipeline, storage: Storage, stderr: NonBlockingStderr) -> Iterator[None]:
        """Serve until the block ends; imports only what is used."""
        with ExitStack() as stack:
            if self.health is not None:
                from penstock.supervise.health import serving

                stack.enter_context(serving(state, *self.health))
            if self.page is not None:
                from penstock.page import serve
                from penstock.page.server import Endpoint

                endpoint = Endpoint(port=self.page, port_option="--page-port")
                page = stack.enter_context(serve(storage.root, endpoint, only=pipeline.name))
                stderr.print_status(f"page: {page.format_address(terminal=sys.stderr.isatty())}")
            if pipeline.webhooks:
                from penstock.watch.webhooks import post_events

                stack.enter_context(post_events(pipeline.webhooks, pipeline.name, storage.events, stderr.print_status))
            yield


def _supervise(run_options: RunOptions, first: DriverProcess, stderr: NonBlockingStderr, endpoints: Endpoints) -> End:
    pipeline = load_and_warn(run_options.file, run_options.master, stderr.print_status)
    from penstock.events import EventLog
    from penstock.model import fingerprint
    from penstock.storage.layout import Storage
    from penstock.storage.lease import LeaseAcquirer
    from penstock.supervise.supervisor import State, Supervisor

    storage = Storage.of(pipeline)
    storage.refuse_if_shared(pipeline.places.get(("storage",), pipeline.at))
    lease = LeaseAcquirer(storage.lease, stderr.print_status, run_options.drain_seconds).acquire()
    log = EventLog(storage.events)
    emit = _emitter(log, stderr)
    state = State(pipeline.name, tuple(sink.name for sink in pipeline.sinks))
    try:
        emit("lease_taken", token=lease.holder.token, pid=lease.holder.pid, host=lease.holder.host)
        with open_screen(pipeline, stderr) as screen:
            supervisor = Supervisor(
                start=lambda: DriverProcess(run_options),
                lease=lease,
                policy=pipeline.restart,
                state=state,
                emit=emit,
                storage=storage.url,
                fingerprint=fingerprint(pipeline),
                show=screen.report,
                restarting=not run_options.once,
                drain_seconds=run_options.drain_seconds,
            )
            _handle_signals(supervisor.request_stop)
            with endpoints.open(state, pipeline, storage, stderr):
                end = supervisor.run(first)
        screen.print_totals()
    finally:
        first.end()
        _release(lease, emit)
        log.close()
    return end


def _release(lease: Lease, emit: Callable[..., None]) -> None:
    try:
        lease.release()
    except OSError as error:
        # The kernel lock is released anyway, which is enough on this machine.
        emit("lease_beat_failed", reason=str(error))
    emit("lease_released", token=lease.holder.token)


def _emitter(log: EventLog, stderr: NonBlockingStderr) -> Callable[..., None]:
    from penstock.events import describe, kind_of

    def emit(what: str, **facts: Any) -> None:
        event = {"what": what, **facts}
        if kind_of(event).printed:
            stderr.print_status(describe(event))
        try:
            log.append(what, **facts)
        except OSError as error:
            # A full disk must not end the supervisor, which restarts the pipeline once there is space.
            stderr.print_status(f"the event log cannot be written: {error.strerror or error}")

    return emit


def _handle_signals(ask: Callable[[str], None]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: ask(signal.Signals(number).name))
    # A closed terminal does not stop the pipeline.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


@dataclass
class Screen:
    """Shows the driver's reports."""

    totals: dict[str, Total]
    stderr: NonBlockingStderr
    live: Live | None = None
    began: bool = False
    """Whether queries were ever started."""

    def report(self, report: dict[str, Any]) -> None:
        """Show one report of the driver."""
        if report["what"] == "status":
            self._wait("")
            self.stderr.print_status(report["text"])
        elif report["what"] == "waiting":
            self._wait(report["text"])
        elif report["what"] == "started":
            self.began = True
        elif report["what"] == "batch":
            self._batch(report["progress"])

    def print_totals(self) -> None:
        """Print a line for each query; nothing if no query was started."""
        for total in self.totals.values() if self.began else ():
            self.stderr.print_status(summary(total))

    def _wait(self, text: str) -> None:
        if self.live is not None:
            self.live.update(totals_table(self.totals.values(), text))
        elif text:
            self.stderr.print_status(Waiting(text))

    def _batch(self, progress: dict[str, Any]) -> None:
        seen = snapshot(progress)
        self.totals[seen.query] = self.totals.get(seen.query, Total(seen.query)).add(seen)
        if self.live is not None:
            self.live.update(totals_table(self.totals.values()))
        elif seen.rows_in:
            self.stderr.print_status(line(seen))


@contextmanager
def open_screen(pipeline: Pipeline, stderr: NonBlockingStderr) -> Iterator[Screen]:
    """The screen of one run: a live table on a terminal, lines elsewhere."""
    totals = {sink.name: Total(sink.name) for sink in pipeline.sinks}
    printing = any(target.connector.prints_rows for sink in pipeline.sinks for target in sink.targets)
    if printing or not sys.stderr.isatty():
        yield Screen(totals, stderr)
        return
    from rich.console import Console
    from rich.live import Live

    with Live(totals_table(totals.values()), console=Console(stderr=True), refresh_per_second=4) as live:
        yield Screen(totals, stderr, live)
