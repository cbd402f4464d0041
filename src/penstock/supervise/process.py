"""The driver process: started in its own session, so that it and everything it starts can be ended together."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

from penstock.processes import kill_session
from penstock.supervise.protocol import Channel, RunOptions

Heard = Callable[["DriverProcess", dict[str, Any]], None]
"""Called from the reader's thread with each report."""


class DriverProcess:
    """A driver that was started; it imports Spark and then waits to be told to go."""

    def __init__(self, orders: RunOptions) -> None:
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-m", "penstock.driver", str(theirs.fileno()), orders.text()]
        with theirs:
            # A session of its own: Ctrl-C in the terminal reaches the supervisor only, and all of it can be found.
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, pass_fds=(theirs.fileno(),), start_new_session=True
            )
        self._line = Channel(ours)

    @property
    def pid(self) -> int:
        """Its process, and the number of its session."""
        return self._process.pid

    def go(self, heard: Heard, lock: int | None, **facts: Any) -> None:
        """Let it start Spark; from here on its reports are heard."""
        threading.Thread(target=self._read, args=(heard,), name="reports", daemon=True).start()
        self._line.send({"order": "go", **facts}, lock)

    def drain(self, why: str) -> None:
        """Let it finish what is under way; one that is dead hears nothing."""
        self._line.send({"order": "drain", "why": why})

    def exit_code(self) -> int | None:
        """How it ended (a signal as a negative number); None while it lives. It is not reaped before `end`."""
        if self._process.returncode is not None:
            return self._process.returncode
        # Until it is reaped nobody else can have its number, so its session can be killed by it.
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

    def _read(self, heard: Heard) -> None:
        for report, _ in self._line.messages():
            heard(self, report)
        self._line.close()
