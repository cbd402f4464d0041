"""The driver's heartbeat; it also watches the JVM, and keeps the lease once the supervisor is dead."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

from penstock.driver.channel import StartOrder, SupervisorChannel
from penstock.errors import PenstockError
from penstock.processes import kill_session
from penstock.storage import lease

if TYPE_CHECKING:
    from typing_extensions import Self

_HEARTBEAT_SECONDS = 1.0
_JVM_EXIT_SECONDS = 30.0
_JVM_CRASH_SECONDS = 5.0
_OUT_OF_MEMORY = 3
"""The JVM's exit code with ExitOnOutOfMemoryError."""


class Heartbeat:
    """Sends a heartbeat every second from a separate thread, and ends the driver when its JVM has died."""

    def __init__(self, channel: SupervisorChannel, order: StartOrder, drain_seconds: float) -> None:
        self._channel, self._order, self._drain_seconds = channel, order, drain_seconds
        self._query_status: Callable[[], dict[str, Any]] = dict
        self._done = threading.Event()
        self._is_exit_expected = threading.Event()
        self._java: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        threading.Thread(target=self._run, name="heartbeat", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()

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
        """Wait for the JVM to exit, then send how it all ended."""
        if self._java is not None:
            assert self._java.stdin is not None
            # The JVM exits when its standard input is closed.
            self._java.stdin.close()
            try:
                self._java.wait(_JVM_EXIT_SECONDS)
            except subprocess.TimeoutExpired:
                self._java.kill()
                self._java.wait()
        self._channel.send("ended", well=well, **facts)

    def abandon(self, reason: str, *, retry: bool) -> None:
        """Exit at once, whatever still runs: the supervisor kills the session; without one we kill it ourselves."""
        self._channel.send("ended", well=False, reason=reason, retry=retry)
        if self._channel.is_orphaned:
            kill_session(os.getsid(0))
        os._exit(1)

    def _run(self) -> None:
        orphaned_at: float | None = None
        while not self._done.wait(_HEARTBEAT_SECONDS):
            # The JVM is dying or dead; the watcher thread reports that. Without its answers we send none.
            with contextlib.suppress(Py4JError, ConnectionError):
                self._channel.send("heartbeat", queries=self._query_status())
            if self._channel.is_orphaned:
                orphaned_at = orphaned_at or time.monotonic()
                self._renew_lease_as_orphan(time.monotonic() - orphaned_at)

    def _renew_lease_as_orphan(self, seconds: float) -> None:
        """The supervisor is dead and the driver drains: it renews the lease itself, for a limited time."""
        # Disk full, or the lease was taken over: the next write notices; the time limit must hold in any case.
        with contextlib.suppress(OSError, PenstockError):
            found = lease.read(self._order.lease)
            if found is not None and found.token == self._order.token:
                lease.Lease(self._order.lease, found).renew()
        if seconds > self._drain_seconds + _JVM_EXIT_SECONDS:
            kill_session(os.getsid(0))

    def _exit_with_jvm(self, process: subprocess.Popen[bytes]) -> None:
        code = process.wait()
        if self._is_exit_expected.is_set():
            return
        why = "it was out of memory; raise spark.driver.memory" if code == _OUT_OF_MEMORY else f"exit code {code}"
        self._channel.send("ended", well=False, reason=f"the driver's JVM has died: {why}", retry=True)
        # Other threads of this process wait for answers of the JVM that will not come.
        os._exit(1)
