"""Signs of life of the driver: its beat, its JVM, and the lease once its supervisor is dead."""

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
from penstock.processes import kill_session
from penstock.storage import lease

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from typing_extensions import Self

_BEAT_SECONDS = 1.0
_JVM_SECONDS = 30.0
_MOURN_SECONDS = 5.0
_OUT_OF_MEMORY = 3
"""The JVM's exit code with ExitOnOutOfMemoryError."""


class Heartbeat:
    """Beats every second from a thread of its own, and sees to it that a dead JVM or supervisor is not outlived."""

    def __init__(self, ears: SupervisorChannel, go: StartOrder, drain_seconds: float) -> None:
        self._ears, self._go, self._drain_seconds = ears, go, drain_seconds
        self._look: Callable[[], dict[str, Any]] = dict
        self._done = threading.Event()
        self._ending = threading.Event()
        self._jvm: Any = None

    def __enter__(self) -> Self:
        threading.Thread(target=self._beat, name="beat", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()

    def watch_jvm(self, spark: SparkSession) -> None:
        """End the driver as soon as its JVM is dead: nothing can be done without it."""
        self._jvm = spark.sparkContext._gateway.proc  # type: ignore[union-attr]
        threading.Thread(target=self._exit_with_jvm, name="jvm", daemon=True).start()

    def watch_queries(self, look: Callable[[], dict[str, Any]]) -> None:
        """Tell with every beat what the queries do."""
        self._look = look

    def wait_for_jvm_exit(self) -> None:
        """The JVM does not answer: if it is dead, that is the reason to tell, and the thread that waits for it does."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._jvm.wait(_MOURN_SECONDS)
            # That thread ends this process.
            threading.Event().wait(_MOURN_SECONDS)

    def expect_exit(self) -> None:
        """The JVM is about to be ended by us."""
        self._look = dict
        self._ending.set()

    def end(self, *, well: bool, **facts: Any) -> None:
        """Wait for the JVM to be dead, then say how it all ended."""
        if self._jvm is not None:
            # It ends when its standard input does.
            self._jvm.stdin.close()
            try:
                self._jvm.wait(_JVM_SECONDS)
            except subprocess.TimeoutExpired:
                self._jvm.kill()
                self._jvm.wait()
        self._ears.report("ended", well=well, **facts)

    def abandon(self, reason: str, *, retry: bool) -> None:
        """End at once, whatever still runs: the supervisor ends the session, and without one it ends itself."""
        self._ears.report("ended", well=False, reason=reason, retry=retry)
        if self._ears.orphaned:
            kill_session(os.getsid(0))
        os._exit(1)

    def _beat(self) -> None:
        orphaned_at: float | None = None
        while not self._done.wait(_BEAT_SECONDS):
            try:
                self._ears.report("beat", queries=self._look())
            except (Py4JError, ConnectionError):
                # The JVM is dying or dead; another thread waits for that. Without its answers there is no beat.
                continue
            if self._ears.orphaned:
                orphaned_at = orphaned_at or time.monotonic()
                self._renew_lease_as_orphan(time.monotonic() - orphaned_at)

    def _renew_lease_as_orphan(self, seconds: float) -> None:
        """The supervisor is dead and the driver drains: it holds the lease itself, and not for ever."""
        found = lease.read(self._go.lease)
        if found is not None and found.token == self._go.token:
            lease.Lease(self._go.lease, found).beat()
        if seconds > self._drain_seconds + _JVM_SECONDS:
            kill_session(os.getsid(0))

    def _exit_with_jvm(self) -> None:
        code = self._jvm.wait()
        if self._ending.is_set():
            return
        why = "it was out of memory; raise spark.driver.memory" if code == _OUT_OF_MEMORY else f"exit code {code}"
        self._ears.report("ended", well=False, reason=f"the driver's JVM has died: {why}", retry=True)
        # Threads of this process wait for answers of the JVM that will not come.
        os._exit(1)
