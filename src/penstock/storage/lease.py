"""One writer per storage: a kernel lock on this machine, and a renewed lease with a fencing token for other machines.

The driver and its JVM inherit the kernel lock, so it is free only when all of them are dead. Other machines that share
the storage see the renewals: a lease that is not renewed is taken over with a higher token. A holder that finds a
higher token than its own has lost the lease and stops writing.

    holder   ── renews 7.1 ── renews 7.2 ── (paused) ──────────── reads 8: lost, stops
    another  ─────────────── refused ────── sees 7.2 unchanged ── takes over as 8
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import time
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

from penstock.errors import PenstockError
from penstock.processes import boot_id, identity
from penstock.storage import files

RENEW_SECONDS = 2.0
STALE_SECONDS = 30.0
_POLL_SECONDS = 0.05
_STARTING_SECONDS = 1.0


class LeaseHeldError(PenstockError):
    """Another instance holds the lease."""


class LeaseLostError(PenstockError):
    """The lease was taken over by another instance."""


@dataclass(frozen=True)
class Holder:
    """The process that holds a lease; the fields are those of the lease file."""

    token: int
    name: str
    """Random for every acquisition."""
    host: str
    boot: str
    pid: int
    started: str
    since: str
    beat: int = 0
    """How often it was renewed."""
    beat_at: str = ""
    leave_seconds: float = 60.0
    """How long its driver may run on after its supervisor was killed."""
    released: bool = False

    @property
    def is_here(self) -> bool:
        """Whether it is, or was, a process of this machine since its last boot."""
        return self.host == socket.gethostname() and self.boot == boot_id()

    @property
    def is_alive(self) -> bool:
        """Whether its supervisor is alive; known only on its own machine."""
        return self.is_here and identity(self.pid) == self.started

    def __str__(self) -> str:
        return f"pid {self.pid} on {self.host} since {self.since[:19]}"


@dataclass
class Lease:
    """A lease held by this process; `fd` is the kernel lock for children to inherit, None without locks."""

    url: str
    holder: Holder
    fd: int | None = None

    def renew(self) -> None:
        """Show that the holder is alive; LeaseLostError if another one has taken over."""
        found = read(self.url)
        if found is not None and found.token > self.holder.token:
            raise lost_error(self.url, found)
        # A lower token was written by an older holder that was paused during its own renewal: overwrite it.
        self.holder = replace(self.holder, beat=self.holder.beat + 1, beat_at=_now())
        _write(self.url, self.holder, sync=False)

    def release(self) -> None:
        """Release the lease, so that the next holder need not wait; the lock also if the file cannot be written."""
        try:
            found = read(self.url)
            if found is not None and found.name == self.holder.name:
                _write(self.url, replace(self.holder, released=True), sync=True)
        finally:
            if self.fd is not None:
                os.close(self.fd)
                self.fd = None


def read(url: str) -> Holder | None:
    """The current or last holder; None if there was none."""
    content = files.read(url)
    if not content:
        return None
    try:
        return Holder(**json.loads(content))
    except (ValueError, TypeError) as error:
        fix = "delete it once you are sure that no instance runs"
        raise LeaseHeldError(f"the lease {url} cannot be read: {error}; {fix}") from error


def must_hold(url: str, token: int) -> None:
    """Raise LeaseLostError if the lease has been taken over since this token."""
    found = read(url)
    if found is not None and found.token > token:
        raise lost_error(url, found)


def lost_error(url: str, found: Holder) -> LeaseLostError:
    """The error when another instance has taken over."""
    return LeaseLostError(f"the lease {url} was taken over by {found}; this instance stops without writing more")


@dataclass(frozen=True)
class LeaseAcquirer:
    """Acquires a lease."""

    url: str
    print_status: Callable[[str], None]
    leave_seconds: float = 60.0
    renew_seconds: float = RENEW_SECONDS
    stale_seconds: float = STALE_SECONDS

    def acquire(self) -> Lease:
        """The lease; LeaseHeldError names the holder if there is one."""
        fd = self._lock() if files.is_local(self.url) else None
        try:
            before = read(self.url)
            if before is not None and not before.released:
                self._refuse_if_alive(before, locked=fd is not None)
            holder = self._new_holder(self._claim(before.token if before else 0))
            _write(self.url, holder, sync=True)
            self._remove_claims(holder.token)
            return Lease(self.url, holder, fd)
        except BaseException as error:
            if fd is not None:
                os.close(fd)
            if isinstance(error, OSError):
                raise _unwritable_error(self.url, error) from error
            raise

    def _lock(self) -> int:
        path = Path(f"{self.url}.lock")
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise _unwritable_error(self.url, error) from error
        try:
            self._wait_for_lock(fd)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def _wait_for_lock(self, fd: int) -> None:
        started, reported = time.monotonic(), False
        while True:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            holder = read(self.url)
            waited = time.monotonic() - started
            if holder is not None and holder.is_here and not holder.is_alive:
                # Its supervisor is dead, and its driver will end by itself.
                if waited > holder.leave_seconds + self.stale_seconds:
                    raise LeaseHeldError(f"the driver that {holder} left behind does not end; find it with ps")
                if not reported:
                    self.print_status(f"waiting for the driver of a killed run to end ({holder})")
                reported = True
            elif (holder is not None and not holder.released) or waited > _STARTING_SECONDS:
                raise held_error(self.url, holder)
            time.sleep(_POLL_SECONDS)

    def _refuse_if_alive(self, before: Holder, *, locked: bool) -> None:
        if before.is_here:
            # We hold the kernel lock, so every process of the last holder is dead.
            if not locked and before.is_alive:
                raise held_error(self.url, before)
            return
        if abs(_seconds_since(before.beat_at)) < self.stale_seconds:
            raise held_error(self.url, before)
        # Clocks of two machines may differ or jump: a holder is dead only if it does not renew while we watch.
        self.print_status(f"waiting to see whether {before} is alive")
        deadline = time.monotonic() + 3 * self.renew_seconds
        while time.monotonic() < deadline:
            found = read(self.url)
            if found is not None and (found.token, found.beat) != (before.token, before.beat):
                raise held_error(self.url, found)
            time.sleep(self.renew_seconds / 10)

    def _claim(self, last: int) -> int:
        """A unique token: only one process can create its claim file."""
        token = last + 1
        while not _create(f"{self.url}.{token}"):
            # Another process is acquiring the lease, or died while doing so.
            time.sleep(self.renew_seconds)
            found = read(self.url)
            if found is not None and found.token > last:
                raise held_error(self.url, found)
            token += 1
        found = read(self.url)
        if found is not None and found.token >= token:
            # It was acquired between our two reads, and its claim file already removed.
            files.remove(f"{self.url}.{token}")
            raise held_error(self.url, found)
        return token

    def _remove_claims(self, token: int) -> None:
        folder, _, name = self.url.rpartition("/")
        for each in files.list_names(folder):
            number = each.removeprefix(f"{name}.")
            if number.isdigit() and int(number) < token:
                files.remove(f"{folder}/{each}")

    def _new_holder(self, token: int) -> Holder:
        pid, now = os.getpid(), _now()
        return Holder(
            token,
            uuid.uuid4().hex,
            socket.gethostname(),
            boot_id(),
            pid,
            identity(pid),
            now,
            beat_at=now,
            leave_seconds=self.leave_seconds,
        )


def held_error(url: str, holder: Holder | None) -> LeaseHeldError:
    """The error when another instance holds the lease."""
    who = f"is held by {holder}" if holder is not None else "is being acquired by another process"
    return LeaseHeldError(
        f"the lease {url} {who}; one instance writes to a storage: stop that one first (penstock stop)"
    )


def _unwritable_error(url: str, error: OSError) -> LeaseHeldError:
    fix = "make that folder writable or set 'storage' to another place"
    return LeaseHeldError(f"cannot write to the storage {url.rpartition('/')[0]}: {error.strerror or error}; {fix}")


def _write(url: str, holder: Holder, *, sync: bool) -> None:
    files.write_atomic(url, json.dumps(asdict(holder)), sync=sync)


def _create(url: str) -> bool:
    if files.is_local(url):
        try:
            os.close(os.open(url, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            return False
        return True
    import fsspec

    system, path = fsspec.url_to_fs(url)
    if "file" in system.protocol:
        system.makedirs(system._parent(path), exist_ok=True)
    if system.exists(path):
        return False
    try:
        with system.open(path, "xb") as file:
            file.write(b"")
    except FileExistsError:
        return False
    except (NotImplementedError, ValueError):
        # A store without exclusive create: the last writer wins, and both check.
        return _is_last_writer(system, path)
    return True


def _is_last_writer(system: object, path: str) -> bool:
    mine = uuid.uuid4().hex.encode()
    system.pipe_file(path, mine)  # type: ignore[attr-defined]
    time.sleep(RENEW_SECONDS)
    return bool(system.cat_file(path) == mine)  # type: ignore[attr-defined]


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


def _seconds_since(moment: str) -> float:
    return (datetime.now(timezone.utc) - datetime.fromisoformat(moment)).total_seconds()
