"""Keeps one driver running until the pipeline ends or is stopped; when to start again is plain arithmetic."""

from __future__ import annotations

import os
import queue
import random
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import TRY_AGAIN, PenstockError
from penstock.events import Emit
from penstock.model import Restart
from penstock.processes import kill_session
from penstock.storage.lease import RENEW_SECONDS, Lease, LeaseLostError
from penstock.supervise.protocol import Channel, RunOptions

OnMessage = Callable[["DriverProcess", dict[str, Any]], None]
"""Called from the reader's thread with each message of the driver."""


class DriverProcess:
    """A driver that was started; it imports Spark and then waits for the start order."""

    def __init__(self, options: RunOptions) -> None:
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-m", "penstock.driver", str(theirs.fileno()), options.text()]
        with theirs:
            # Its own session: Ctrl-C in the terminal reaches the supervisor only, and every process of it can be found.
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, pass_fds=(theirs.fileno(),), start_new_session=True
            )
        self._channel = Channel(ours)

    @property
    def pid(self) -> int:
        """Its process, and the number of its session."""
        return self._process.pid

    def send_start(self, on_message: OnMessage, lock: int | None, **facts: Any) -> None:
        """Let it start Spark; from here on its messages are read."""
        threading.Thread(target=self._read, args=(on_message,), name="messages", daemon=True).start()
        self._channel.send({"order": "start", **facts}, lock)

    def drain(self, why: str) -> None:
        """Let it finish its running batches; a dead one gets no order."""
        self._channel.send({"order": "drain", "why": why})

    def exit_code(self) -> int | None:
        """How it ended (a signal as a negative number); None while it lives. It is not reaped before `end`."""
        if self._process.returncode is not None:
            return self._process.returncode
        # Until it is reaped its pid is not reused, so its session can be killed by it.
        found = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        if found is None:
            return None
        return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status

    def end(self) -> int:
        """Kill what is left of its session, JVM and Python workers included, and give its exit code."""
        if self._process.returncode is None:
            kill_session(self.pid)
            self._process.wait()
        return self._process.returncode

    def _read(self, on_message: OnMessage) -> None:
        for message, _ in self._channel.messages():
            on_message(self, message)
        self._channel.close()


@dataclass
class Restarts:
    """The restarts of one pipeline so far, and what its policy makes of the next one."""

    policy: Restart
    chance: Callable[[], float] = random.random
    _at: list[float] = field(default_factory=list)
    _in_a_row: int = 0

    @property
    def count(self) -> int:
        """How many restarts count against the limit."""
        return len(self._at)

    def wait_seconds(self, now: float, ran_seconds: float) -> float | None:
        """How long to wait before the next start after a run of `ran_seconds`; None to give up."""
        if ran_seconds >= self.policy.healthy_seconds:
            self._at, self._in_a_row = [], 0
        self._at = [moment for moment in self._at if now - moment < self.policy.within_seconds]
        if len(self._at) >= self.policy.limit:
            return None
        self._at.append(now)
        wait = min(self.policy.backoff_seconds * 2.0**self._in_a_row, self.policy.most_seconds)
        self._in_a_row += 1
        # Apart: pipelines that one broker's fall has ended do not come back in the same second.
        return wait * (1 + self.policy.jitter * (2 * self.chance() - 1))


_REMEMBERED = 20
SILENT_SECONDS = 60.0
"""A driver beats every second; one that has not for so long is stuck."""


@dataclass
class Watchdog:
    """What is usual for each query, and what is not."""

    policy: Restart
    silent_seconds: float = SILENT_SECONDS
    _usual: dict[str, deque[float]] = field(default_factory=lambda: defaultdict(lambda: deque(maxlen=_REMEMBERED)))
    _last_beat: float | None = None

    def batch(self, query: str, seconds: float) -> None:
        """A batch took so long."""
        self._usual[query].append(seconds)

    def beat(self, now: float) -> None:
        """The driver shows that it lives."""
        self._last_beat = now

    def most_seconds(self, query: str) -> float:
        """How long a batch of this query may take."""
        known = self._usual.get(query)
        usual = statistics.median(known) if known else 0.0
        return max(self.policy.stalled_seconds, self.policy.stalled_times * usual)

    def complaint(self, now: float, busy: Mapping[str, float]) -> str:
        """What has stopped moving; '' if nothing has. `busy` says for how long each query has been in its batch."""
        if self._last_beat is not None and now - self._last_beat > self.silent_seconds:
            return f"the driver has not been heard of for {now - self._last_beat:.0f} s"
        for query, seconds in busy.items():
            if seconds > self.most_seconds(query):
                return f"the query {query!r} has not finished a batch for {seconds:.0f} s"
        return ""


_POLL_SECONDS = 0.2
_MESSAGES_SECONDS = 5.0
_STOPPED_SECONDS = 10.0
_GRACE_SECONDS = 5.0
"""Past the drain's own limit, which the driver itself keeps first."""


@dataclass(frozen=True)
class End:
    """How one driver ended."""

    well: bool
    reason: str = ""
    retry: bool = True

    @property
    def exit_code(self) -> int:
        """What the run exits with: a service manager restarts what may succeed, and nothing else."""
        if self.well:
            return 0
        return TRY_AGAIN if self.retry else PenstockError.exit_code


@dataclass
class State:
    """The driver and its queries now; read by /health and /ready."""

    name: str
    sinks: tuple[str, ...]
    phase: str = "starting"
    driver_pid: int | None = None
    restarts: int = 0
    heartbeat_at: float | None = None
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
    emit: Emit
    show: Callable[[dict[str, Any]], None]
    """Takes the driver's messages for the screen."""
    storage: str = ""
    fingerprint: str = ""
    """Of the pipeline that was checked; every driver of this run must load the same."""
    restarting: bool = True
    drain_seconds: float = 60.0
    verbose: bool = False
    clock: Callable[[], float] = time.monotonic
    _inbox: queue.SimpleQueue[tuple[str, Any]] = field(default_factory=queue.SimpleQueue)
    _child: DriverProcess | None = None
    _stopping: str = ""
    _stop_by: float = float("inf")
    _now: bool = False

    def run(self, first: DriverProcess) -> End:
        """Supervise from the first driver to the last; afterwards no process is left."""
        restarts = Restarts(self.policy)
        has_ended = threading.Event()
        threading.Thread(target=self._renew_lease, args=(has_ended,), name="lease", daemon=True).start()
        child = first
        try:
            while True:
                began = self.clock()
                end = self._one(child)
                if end.well or self._stopping or not end.retry or not self.restarting:
                    return end
                wait = restarts.wait_seconds(self.clock(), self.clock() - began)
                if wait is None:
                    return self._give_up(end, restarts)
                self.state.restarts += 1
                self.emit("restarting", reason=end.reason, wait_seconds=round(wait, 1), restart=restarts.count)
                # It imports Spark during the wait.
                child = self.start()
                if not self._pause(wait):
                    child.end()
                    return End(well=True)
        finally:
            has_ended.set()
            self.state.phase = "ended"
            if self._child is not None:
                self._child.end()

    def request_stop(self, why: str) -> None:
        """Drain; a second time: stop now. Safe in a signal handler."""
        self._inbox.put(("stop", why))

    def _one(self, child: DriverProcess) -> End:
        """From the start order to the end of one driver."""
        self._child, reported = child, End(well=False)
        dog = Watchdog(self.policy)
        holder = self.lease.holder
        child.send_start(
            lambda who, message: self._inbox.put(("message", (who, message))),
            self.lease.fd,
            lease=self.lease.url,
            token=holder.token,
            attempt=self.state.restarts,
            storage=self.storage,
            fingerprint=self.fingerprint,
        )
        self.state.driver_pid, self.state.queries = child.pid, {}
        self.state.phase = "starting"
        self.emit("driver_started", pid=child.pid, attempt=self.state.restarts, supervisor=holder.started)
        dog.beat(self.clock())
        hung, looked_at = "", self.clock()
        while child.exit_code() is None and not self._now and not hung:
            reported = self._take_message(dog) or reported
            if self.clock() - looked_at > _STOPPED_SECONDS:
                # It was us who stood still (SIGSTOP): the driver's messages wait in the channel.
                dog.beat(self.clock())
            looked_at = self.clock()
            if self.clock() > self._stop_by + _GRACE_SECONDS:
                hung = f"the driver did not drain within {self.drain_seconds:.0f} s"
            elif complaint := dog.complaint(self.clock(), self._busy()):
                hung = complaint
        self.state.phase = "ending"
        code = child.end()
        reported = self._take_rest(dog) or reported
        end = self._judge(reported, code, hung)
        self._child, self.state.driver_pid = None, None
        self.emit("driver_ended", pid=child.pid, code=code, well=end.well, reason=end.reason)
        return end

    def _judge(self, reported: End, code: int, hung: str) -> End:
        if self._now:
            return End(well=False, reason="stopped at once", retry=False)
        if hung:
            return End(well=False, reason=hung)
        if reported.well or reported.reason:
            return reported
        how = f"was killed by {_signal_name(-code)}" if code < 0 else f"ended with exit code {code}"
        return End(well=False, reason=f"the driver {how}")

    def _take_message(self, dog: Watchdog) -> End | None:
        """Handle one message, or return after a moment without one."""
        try:
            kind, what = self._inbox.get(timeout=_POLL_SECONDS)
        except queue.Empty:
            return None
        if kind == "stop":
            self._stop(what)
            return None
        who, message = what
        return self._handle(message, dog) if who is self._child else None

    def _handle(self, message: dict[str, Any], dog: Watchdog) -> End | None:
        now = self.clock()
        what = message["what"]
        dog.beat(now)
        self.state.heartbeat_at = time.time()
        if what == "heartbeat":
            self.state.queries = message["queries"]
        elif what == "started":
            self.state.phase = "running"
        elif what == "batch":
            progress = message["progress"]
            dog.batch(progress["name"], progress.get("durationMs", {}).get("triggerExecution", 0) / 1000)
        elif what == "ended":
            return End(message["well"], message.get("reason", ""), message.get("retry", True))
        self.show(message)
        return None

    def _take_rest(self, dog: Watchdog) -> End | None:
        """Handle what the driver had sent before its end."""
        end = None
        deadline = self.clock() + _MESSAGES_SECONDS
        while self.clock() < deadline:
            try:
                kind, what = self._inbox.get(timeout=0.05)
            except queue.Empty:
                break
            if kind == "message" and what[0] is self._child:
                end = self._handle(what[1], dog) or end
            elif kind == "stop":
                self._stop(what)
        return end

    def _busy(self) -> dict[str, float]:
        return {name: facts.get("busy_seconds", 0.0) for name, facts in self.state.queries.items()}

    def _stop(self, why: str) -> None:
        if self._stopping:
            self._now = True
            self.emit("stopping_now", why=why)
            return
        self._stopping, self._stop_by = why, self.clock() + self.drain_seconds
        self.emit("draining", why=why, most_seconds=self.drain_seconds)
        self.state.phase = "draining"
        if self._child is not None:
            self._child.drain(why)

    def _pause(self, seconds: float) -> bool:
        """Wait before a restart; False if it is stopped meanwhile."""
        self.state.phase = "waiting"
        deadline = self.clock() + seconds
        while (left := deadline - self.clock()) > 0 and not self._stopping:
            try:
                kind, what = self._inbox.get(timeout=left)
            except queue.Empty:
                continue
            if kind == "stop":
                self._stop(what)
        return not self._stopping

    def _give_up(self, end: End, restarts: Restarts) -> End:
        minutes = self.policy.within_seconds / 60
        says = f"{restarts.count} restarts within {minutes:g} minutes did not help, so there are no more"
        self.emit("gave_up", restarts=restarts.count, reason=end.reason)
        fix = "fix the cause and run it again; 'restart: {limit: ...}' allows more"
        return End(well=False, reason=f"{end.reason}\n{says}; {fix}")

    def _renew_lease(self, ended: threading.Event) -> None:
        failing = False
        while not ended.wait(RENEW_SECONDS):
            try:
                self.lease.renew()
                failing = False
            except LeaseLostError as error:
                self.emit("lease_lost", reason=str(error))
                self._inbox.put(("stop", str(error)))
                self._inbox.put(("stop", str(error)))
                return
            except Exception as error:
                # Disk full, a damaged lease, or an object store that does not answer: we still hold the kernel lock on
                # this host, and a takeover from another host would show as a higher token.
                if not failing:
                    self.emit("lease_beat_failed", reason=str(error))
                failing = True


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        # Most real-time signals have no name.
        return f"signal {number}"
