"""A background program that outlives its starter, tracked by a file in its folder.

start ── lock ── record? ── no ──► launch, write the record ──► wait until it answers
                   └─ yes: pid alive with the recorded start time? ── yes ──► wait until it answers
                                                                   └─ no, stale: launch again
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path

from penstock.errors import ServiceError
from penstock.processes import identity, wait_until

Progress = Callable[[str], None]
"""Called with a status line."""

_POLL_SECONDS = 0.05
_TERM_SECONDS = 30.0
_KILL_SECONDS = 10.0
_LOG_LINES = 15
_QUIET_SECONDS = 15.0
_MAX_EXTENSION = 5
_ERROR = re.compile(r"\b(ERROR|FATAL|\w+(?:Exception|Error))\b")

# Children stay zombies until they are polled, and a Popen must outlive its child.
_children: dict[int, subprocess.Popen[bytes]] = {}


@dataclass(frozen=True)
class Status:
    """The state of a service: `running`, `stopped`, or `stale` if it died on its own."""

    name: str
    state: str
    pid: int | None = None
    address: str | None = None
    since: str | None = None


@dataclass(frozen=True)
class _Record:
    pid: int
    identity: str
    address: str
    since: str


@dataclass
class StartTimeout:
    """The start timeout of a program: `timeout_seconds`, extended while its log grows, up to five times as long."""

    timeout_seconds: float
    started_at: float
    _log_bytes: int = -1
    _grew_at: float = 0.0

    def has_expired(self, now: float, log_bytes: int) -> bool:
        """Whether to give up, given the current size of the log."""
        if log_bytes != self._log_bytes:
            self._log_bytes, self._grew_at = log_bytes, now
        waited = now - self.started_at
        is_quiet = now - self._grew_at >= min(_QUIET_SECONDS, self.timeout_seconds)
        return waited > self.timeout_seconds * _MAX_EXTENSION or (waited > self.timeout_seconds and is_quiet)


@dataclass(frozen=True)
class Process:
    """The background program of a service, with its record, lock and log in a private folder."""

    name: str
    folder: Path

    @property
    def log(self) -> Path:
        """The output of the program; each start opens a new log and keeps the previous one."""
        return self.folder / f"{self.name}.log"

    def status(self) -> Status:
        """Whether the program runs, judged by pid and start time."""
        record = self._record()
        if record is None:
            return Status(self.name, "stopped")
        state = "running" if _identity(record.pid) == record.identity else "stale"
        return Status(self.name, state, record.pid, record.address, record.since)

    @contextlib.contextmanager
    def lock(self, progress: Progress) -> Iterator[None]:
        """Lock the folder, so that two calls do not start or stop the same program concurrently."""
        self._make_folder()
        with (self.folder / "lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                progress(f"waiting for another penstock that starts or stops {self.name}")
                fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def start(self, command: Sequence[str], address: str) -> None:
        """Start the program in a new session, so that Ctrl-C in this terminal does not reach it."""
        if self.log.exists():
            self.log.replace(self.log.with_suffix(".previous.log"))
        with self.log.open("ab") as out:
            child = subprocess.Popen(
                command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
            )
        _children[child.pid] = child
        since = datetime.now(timezone.utc).isoformat(timespec="seconds")
        self._write(_Record(child.pid, _identity(child.pid), address, since))

    def wait(self, answers: Callable[[], bool], timeout_seconds: float) -> None:
        """Wait until it answers; an error with the last lines of the log if it dies or times out."""
        started_at = time.monotonic()
        timeout = StartTimeout(timeout_seconds, started_at)
        while not answers():
            if self.status().state != "running":
                raise ServiceError(f"{self.name} stopped while starting; its log {self.log} ends with\n{self._tail()}")
            if timeout.has_expired(time.monotonic(), self.log.stat().st_size):
                says = f"{self.name} did not answer within {time.monotonic() - started_at:.0f} seconds"
                raise ServiceError(f"{says}; its log {self.log} ends with\n{self._tail()}")
            time.sleep(_POLL_SECONDS)

    def stop(self) -> Status:
        """Terminate the program, with SIGTERM before SIGKILL, and return the status it had."""
        found = self.status()
        if found.state == "running" and found.pid is not None:
            gone = self._signal(signal.SIGTERM, _TERM_SECONDS) or self._signal(signal.SIGKILL, _KILL_SECONDS)
            if not gone:
                raise ServiceError(
                    f"{self.name} (pid {found.pid}) is still there after SIGKILL; check its state with `ps`"
                )
            _children.pop(found.pid, None)
        self._file.unlink(missing_ok=True)
        return found

    def _signal(self, number: signal.Signals, timeout_seconds: float) -> bool:
        found = self.status()
        if found.state == "running" and found.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(found.pid, number)
        return wait_until(lambda: self.status().state != "running", timeout_seconds)

    @property
    def _file(self) -> Path:
        return self.folder / "process.json"

    def _record(self) -> _Record | None:
        try:
            return _Record(**json.loads(self._file.read_text(encoding="utf-8")))
        except (FileNotFoundError, ValueError, TypeError):
            return None

    def _write(self, record: _Record) -> None:
        new = self._file.with_suffix(".new")
        new.write_text(json.dumps(asdict(record)), encoding="utf-8")
        new.replace(self._file)

    def _make_folder(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.folder.chmod(0o700)
        except OSError as error:
            says = f"{self.name} cannot store its data in {self.folder}: {error.strerror}"
            raise ServiceError(f"{says}; set PENSTOCK_DEV to a folder that you can write") from error

    def _tail(self) -> str:
        # Skip stack frames: they would push out the line with the cause.
        output = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        lines = [line for line in output if not line.startswith("\tat ")]
        last = lines[-_LOG_LINES:]
        error = next((line for line in reversed(lines) if _ERROR.search(line)), None)
        more = [f"and its last error is\n  {error}"] if error and error not in last else []
        return "\n".join([*(f"  {line}" for line in last or ["(nothing)"]), *more])


def _identity(pid: int) -> str:
    child = _children.get(pid)
    return "" if child is not None and child.poll() is not None else identity(pid)
