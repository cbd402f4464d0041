"""A driver and all that it starts is one session of the operating system: found, and ended, together."""

from __future__ import annotations

import contextlib
import os
import signal
import time

import psutil

_LOOK_SECONDS = 0.02


def identity(pid: int) -> str:
    """When a live process began, as its system counts it; '' if there is none. A pid used again has another one."""
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return ""
        return f"{process.create_time():.2f}"
    except psutil.NoSuchProcess:
        return ""


def living(session: int) -> list[int]:
    """The processes of a session that are not dead; what only waits to be reaped is dead."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(ProcessLookupError, psutil.NoSuchProcess):
            if os.getsid(process.pid) == session and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
    return found


def end(session: int, most_seconds: float = 30.0) -> bool:
    """Kill every process of a session; True once none is left."""
    deadline = time.monotonic() + most_seconds
    while left := living(session):
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            return False
        time.sleep(_LOOK_SECONDS)
    return True
