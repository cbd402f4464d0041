"""The driver's heartbeat; it also watches the JVM, and renews the lease when the supervisor is dead or stopped."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.driver.channel import StartOrder, SupervisorChannel
from penstock.errors import PenstockError
from penstock.processes import kill_session
from penstock.storage import lease

if TYPE_CHECKING:
    from typing_extensions import Self

_HEARTBEAT_SECONDS = 1.0
_STOPPED_SECONDS = 2 * lease.RENEW_SECONDS
"""A supervisor that has not renewed the lease for so long is stopped; other machines wait longer."""
_JVM_EXIT_SECONDS = 30.0
_JVM_CRASH_SECONDS = 5.0
_OUT_OF_MEMORY = 3
"""The JVM's exit code with ExitOnOutOfMemoryError."""


class Heartbeat:
    """Sends a heartbeat every second from a separate thread, and ends the driver when its JVM has died.

    The lease has a thread of its own: the JVM may leave questions of the heartbeat unanswered for ever.
    """

    def __init__(self, channel: SupervisorChannel, order: StartOrder, drain_seconds: float) -> None:
        self._channel, self._order, self._drain_seconds = channel, order, drain_seconds
        self._query_status: Callable[[], dict[str, Any]] = dict
        self._done = threading.Event()
        self._is_exit_expected = threading.Event()
        self._java: subprocess.Popen[bytes] | None = None
        self._limit: threading.Timer | None = None

    def __enter__(self) -> Self:
        threading.Thread(target=self._run, name="heartbeat", daemon=True).start()
        threading.Thread(target=self._keep_lease, name="lease", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        if self._limit is not None:
            self._limit.cancel()

    def watch_jvm(self, process: subprocess.Popen[bytes]) -> None:
        """End the driver as soon as its JVM is dead: nothing can be done without it."""
        self._java = process
        threading.Thread(target=self._exit_with_jvm, args=(process,), name="jvm", daemon=True).start()

    def watch_queries(self, status: Callable[[], dict[str, Any]]) -> None:
        """Send with every heartbeat what the queries do."""
        self._query_status = status

    def wait_for_jvm_exit(self) -> None:
        """Py4J failed. If the JVM has exited, let the watcher thread report that instead: it is the real cause."""
        if self._java is None:
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._java.wait(_JVM_CRASH_SECONDS)
            # The watcher thread ends this process.
            threading.Event().wait(_JVM_CRASH_SECONDS)

    def expect_exit(self) -> None:
        """We are about to end the JVM."""
        self._query_status = dict
        self._is_exit_expected.set()

    def end(self, *, well: bool, **facts: Any) -> None:
        """Wait for the JVM to exit, then send how it all ended; without a supervisor, release the lease."""
        if self._java is not None:
            assert self._java.stdin is not None
            # The JVM exits when its standard input is closed.
            self._java.stdin.close()
            try:
                self._java.wait(_JVM_EXIT_SECONDS)
            except subprocess.TimeoutExpired:
                self._java.kill()
                self._java.wait()
        if self._channel.is_orphaned:
            self._release_lease()
        self._channel.send("ended", well=well, **facts)

    def abandon(self, reason: str, *, retry: bool) -> None:
        """Exit at once, whatever still runs: the supervisor kills the session; without one we kill it ourselves."""
        self._channel.send("ended", well=False, reason=reason, retry=retry)
        if self._channel.is_orphaned:
            kill_session(os.getsid(0))
        os._exit(1)

    def _run(self) -> None:
        while not self._done.wait(_HEARTBEAT_SECONDS):
            # A dying JVM answers with all kinds of errors, and the watcher thread reports its death.
            with contextlib.suppress(Exception):
                self._channel.send("heartbeat", queries=self._query_status())

    def _keep_lease(self) -> None:
        keeper = LeaseKeeper(self._order.lease, self._order.token)
        while not self._done.wait(_HEARTBEAT_SECONDS):
            if self._channel.is_orphaned and self._limit is None:
                self._start_limit()
            # Disk full, the storage does not answer, or the lease was taken over, which the next write notices.
            with contextlib.suppress(Exception):
                keeper.renew(time.monotonic(), at_once=self._channel.is_orphaned)

    def _start_limit(self) -> None:
        """The supervisor is dead: the driver drains, and must end by itself."""
        seconds = self._drain_seconds + _JVM_EXIT_SECONDS
        self._limit = threading.Timer(seconds, lambda: kill_session(os.getsid(0)))
        self._limit.daemon = True
        self._limit.start()

    def _release_lease(self) -> None:
        with contextlib.suppress(OSError, PenstockError):
            found = lease.read(self._order.lease)
            if found is not None and found.token == self._order.token:
                lease.Lease(self._order.lease, found).release()

    def _exit_with_jvm(self, process: subprocess.Popen[bytes]) -> None:
        code = process.wait()
        if self._is_exit_expected.is_set():
            return
        why = "it was out of memory; raise spark.driver.memory" if code == _OUT_OF_MEMORY else f"exit code {code}"
        self._channel.send("ended", well=False, reason=f"the driver's JVM has died: {why}", retry=True)
        # Other threads of this process wait for answers of the JVM that will not come.
        os._exit(1)


class LeaseKeeper:
    """Renews a lease in place of its supervisor: at once if that is dead, or when it has not for a few seconds.

    supervisor   ── renews 41 ── (SIGSTOP) ───────────────────── (SIGCONT) ── renews 45 ──
    driver       ─────────────── 42 ── 43 ── 44 ───────────────────────────────────────
    """

    def __init__(self, url: str, token: int) -> None:
        self._url, self._token = url, token
        self._beat, self._since = -1, float("inf")
        self._known: lease.Holder | None = None

    def renew(self, now: float, *, at_once: bool) -> None:
        """Renew the lease if the supervisor does not; call it every second."""
        found = self._read()
        if found is None or found.token != self._token:
            return
        self._known = found
        if found.beat != self._beat:
            self._beat, self._since = found.beat, now
        if at_once or now - self._since >= _STOPPED_SECONDS:
            renewed = lease.Lease(self._url, found)
            renewed.renew()
            self._beat = renewed.holder.beat

    def _read(self) -> lease.Holder | None:
        """The lease, or what was last known of a damaged one: a renewal replaces it."""
        try:
            return lease.read(self._url)
        except lease.LeaseUnreadableError:
            return self._known
