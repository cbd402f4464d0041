"""The loop that keeps one driver running, by policy, until the pipeline ends or is told to stop."""

from __future__ import annotations

import queue
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from penstock.model import Restart
from penstock.storage.lease import BEAT_SECONDS, Lease, LostError
from penstock.supervise.policy import Restarts, Watchdog
from penstock.supervise.process import DriverProcess

_LOOK_SECONDS = 0.2
_REPORTS_SECONDS = 5.0
_GRACE_SECONDS = 5.0
"""Past the drain's own limit: the driver sees to that limit first."""

Tell = Callable[..., None]


@dataclass(frozen=True)
class End:
    """How one driver ended."""

    well: bool
    reason: str = ""
    retry: bool = True


@dataclass
class State:
    """What is known now of the driver and its queries; read by /health and /ready."""

    name: str
    sinks: tuple[str, ...]
    phase: str = "starting"
    driver_pid: int | None = None
    restarts: int = 0
    beat_at: float | None = None
    queries: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def is_ready(self) -> bool:
        """Whether every declared query is active."""
        return self.phase == "running" and all(self.queries.get(sink, {}).get("active") for sink in self.sinks)


@dataclass
class Supervisor:
    """One pipeline's life: drivers one after the other, never two at once."""

    start: Callable[[], DriverProcess]
    lease: Lease
    policy: Restart
    state: State
    tell: Tell
    """Takes facts for the event log."""
    show: Callable[[dict[str, Any]], None]
    """Takes what the driver reports for the screen."""
    restarting: bool = True
    drain_seconds: float = 60.0
    verbose: bool = False
    _inbox: queue.SimpleQueue[tuple[str, Any]] = field(default_factory=queue.SimpleQueue)
    _child: DriverProcess | None = None
    _stopping: str = ""
    _stop_by: float = float("inf")
    _now: bool = False

    def run(self, first: DriverProcess) -> End:
        """Supervise from the first driver to the last; afterwards no process is left."""
        restarts = Restarts(self.policy)
        beating = threading.Event()
        threading.Thread(target=self._beat, args=(beating,), name="lease", daemon=True).start()
        child = first
        try:
            while True:
                began = time.monotonic()
                end = self._one(child)
                if end.well or self._stopping or not end.retry or not self.restarting:
                    return end
                wait = restarts.wait_seconds(time.monotonic(), time.monotonic() - began)
                if wait is None:
                    return self._given_up(end, restarts)
                self.state.restarts += 1
                self.tell("restarting", reason=end.reason, wait_seconds=round(wait, 1), restart=restarts.count)
                # It imports Spark while the wait lasts.
                child = self.start()
                if not self._pause(wait):
                    child.end()
                    return End(well=True)
        finally:
            beating.set()
            self.state.phase = "ended"
            if self._child is not None:
                self._child.end()

    def ask_to_stop(self, why: str) -> None:
        """Drain; a second time: stop now. Safe in a signal's handler."""
        self._inbox.put(("stop", why))

    def _one(self, child: DriverProcess) -> End:
        """From go to the end of one driver."""
        self._child, said = child, End(well=False)
        dog = Watchdog(self.policy)
        holder = self.lease.holder
        child.go(
            lambda who, report: self._inbox.put(("report", (who, report))),
            self.lease.fd,
            lease=self.lease.url,
            token=holder.token,
            attempt=self.state.restarts,
        )
        self.state.driver_pid, self.state.queries = child.pid, {}
        self.state.phase = "starting"
        self.tell("driver_started", pid=child.pid, attempt=self.state.restarts)
        dog.beat(time.monotonic())
        hung = ""
        while child.exit_code() is None and not self._now and not hung:
            found = self._heard(dog)
            said = found or said
            if time.monotonic() > self._stop_by + _GRACE_SECONDS:
                hung = f"the driver did not drain within {self.drain_seconds:.0f} s"
            elif complaint := dog.complaint(time.monotonic(), self._busy()):
                hung = complaint
        self.state.phase = "ending"
        code = child.end()
        said = self._rest(dog) or said
        end = self._judged(said, code, hung)
        self._child, self.state.driver_pid = None, None
        self.tell("driver_ended", pid=child.pid, code=code, well=end.well, reason=end.reason)
        return end

    def _judged(self, said: End, code: int, hung: str) -> End:
        if self._now:
            return End(well=False, reason="stopped at once", retry=False)
        if hung:
            return End(well=False, reason=hung)
        if said.well or said.reason:
            return said
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        return End(well=False, reason=f"the driver {how}")

    def _heard(self, dog: Watchdog) -> End | None:
        """Take one message, or look around after a while."""
        try:
            kind, what = self._inbox.get(timeout=_LOOK_SECONDS)
        except queue.Empty:
            return None
        if kind == "stop":
            self._stop(what)
            return None
        who, report = what
        return self._reported(report, dog) if who is self._child else None

    def _reported(self, report: dict[str, Any], dog: Watchdog) -> End | None:
        now = time.monotonic()
        what = report["what"]
        dog.beat(now)
        self.state.beat_at = time.time()
        if what == "beat":
            self.state.queries = report["queries"]
        elif what == "started":
            self.state.phase = "running"
        elif what == "batch":
            progress = report["progress"]
            dog.batch(progress["name"], progress.get("durationMs", {}).get("triggerExecution", 0) / 1000)
        elif what == "ended":
            return End(report["well"], report.get("reason", ""), report.get("retry", True))
        self.show(report)
        return None

    def _rest(self, dog: Watchdog) -> End | None:
        """What the driver had said before its end and is not heard yet."""
        end = None
        deadline = time.monotonic() + _REPORTS_SECONDS
        while time.monotonic() < deadline:
            try:
                kind, what = self._inbox.get(timeout=0.05)
            except queue.Empty:
                break
            if kind == "report" and what[0] is self._child:
                end = self._reported(what[1], dog) or end
            elif kind == "stop":
                self._stop(what)
        return end

    def _busy(self) -> dict[str, float]:
        return {name: facts.get("busy_seconds", 0.0) for name, facts in self.state.queries.items()}

    def _stop(self, why: str) -> None:
        if self._stopping:
            self._now = True
            self.tell("stopping_now", why=why)
            return
        self._stopping, self._stop_by = why, time.monotonic() + self.drain_seconds
        self.tell("draining", why=why, most_seconds=self.drain_seconds)
        self.state.phase = "draining"
        if self._child is not None:
            self._child.drain(why)

    def _pause(self, seconds: float) -> bool:
        """Wait before a restart; False if it is told to stop meanwhile."""
        self.state.phase = "waiting"
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0 and not self._stopping:
            try:
                kind, what = self._inbox.get(timeout=left)
            except queue.Empty:
                continue
            if kind == "stop":
                self._stop(what)
        return not self._stopping

    def _given_up(self, end: End, restarts: Restarts) -> End:
        minutes = self.policy.within_seconds / 60
        says = f"{restarts.count} restarts within {minutes:g} minutes did not help, so there are no more"
        self.tell("gave_up", restarts=restarts.count, reason=end.reason)
        fix = "mend the cause and run it again; 'restart: {limit: ...}' allows more"
        return End(well=False, reason=f"{end.reason}\n{says}; {fix}", retry=False)

    def _beat(self, ended: threading.Event) -> None:
        failing = False
        while not ended.wait(BEAT_SECONDS):
            try:
                self.lease.beat()
                failing = False
            except LostError as error:
                self.tell("lease_lost", reason=str(error))
                self._inbox.put(("stop", str(error)))
                self._inbox.put(("stop", str(error)))
                return
            except OSError as error:
                # A full disk: the lock still holds this machine, and another one would show a higher token.
                if not failing:
                    self.tell("lease_beat_failed", reason=str(error))
                failing = True
