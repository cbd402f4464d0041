"""Processes of this machine: which one a pid stands for, and every process of one session."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import psutil

_POLL_SECONDS = 0.02


def boot_id() -> str:
    """Which run of the operating system this is."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    except OSError:
        return str(int(psutil.boot_time()))


def identity(pid: int) -> str:
    """Boot and start time of a live process; '' if there is none. A reused pid has another identity.

    On Linux the start time is counted in ticks since the boot, so setting the clock does not change it.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "" if Path("/proc/self/stat").exists() else _identity_by_clock(pid)
    # The program's name is in parentheses and may hold blanks: fields count from the last parenthesis.
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] in "ZX" else f"{boot_id()}:{fields[19]}"


def _identity_by_clock(pid: int) -> str:
    try:
        process = psutil.Process(pid)
        is_dead = process.status() == psutil.STATUS_ZOMBIE
        return "" if is_dead else f"{boot_id()}:{process.create_time():.2f}"
    except psutil.NoSuchProcess:
        return ""


def was_running_at(pid: int, moment: float) -> bool:
    """Whether the process that had this pid at a moment (seconds since the epoch) is still alive."""
    try:
        process = psutil.Process(pid)
        # Started later than the moment: the number was given to another process.
        return bool(process.create_time() <= moment + 1 and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def is_open(file_id: str) -> bool:
    """Whether a process of this machine may have a file open, given by "device:inode"; True where nobody can tell."""
    if not Path("/proc/self/fd").exists():
        return True
    for each in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            found = each.stat()
            if f"{found.st_dev}:{found.st_ino}" == file_id:
                return True
    return False


def list_session(session: int) -> list[int]:
    """The live processes of a session; zombies do not count."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(ProcessLookupError, psutil.NoSuchProcess):
            if os.getsid(process.pid) == session and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
    return found


def kill_session(session: int, most_seconds: float = 30.0) -> bool:
    """Kill every process of a session; True once none is left."""

    def is_empty() -> bool:
        left = list_session(session)
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not left

    return wait_until(is_empty, most_seconds, _POLL_SECONDS)


def wait_until(condition: Callable[[], bool], most_seconds: float, poll_seconds: float = 0.05) -> bool:
    """Wait until a condition holds; False if it does not within this time. It is asked at least once."""
    deadline = time.monotonic() + most_seconds
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(poll_seconds)
    return True
