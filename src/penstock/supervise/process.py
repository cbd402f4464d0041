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
