"""One writer per storage: a lock that dies with its holders, and a beat with a token for other machines.

On one machine the lock is the kernel's: the driver and its JVM inherit it, so it is free only when all of them are
dead. Other machines that share the storage see the beat: a lease whose beat stands still is taken over, and each
taking has a higher token. Whoever finds a higher token than its own has lost the lease and writes no more.

    holder   ── beat 7.1 ── beat 7.2 ── (paused) ─────────────── reads 8: lost, stops
    another  ───────────── refused ──── sees 7.2 stand still ─── takes it as 8
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

BEAT_SECONDS = 2.0
STALE_SECONDS = 30.0
_LOOK_SECONDS = 0.05
_STARTING_SECONDS = 1.0


class HeldError(PenstockError):
    """Another instance holds the lease."""


class LostError(PenstockError):
    """The lease was taken over by another instance."""


@dataclass(frozen=True)
class Holder:
    """Who holds a lease."""

    token: int
    name: str
    """Made up at every taking, so that no two takings are alike."""
    host: str
    boot: str
    pid: int
    started: str
    since: str
    beat: int = 0
    beat_at: str = ""
    leave_seconds: float = 60.0
    """How long its driver may go on after its supervisor was killed."""
    released: bool = False

    @property
    def is_here(self) -> bool:
        """Whether it is, or was, a process of this machine since it was switched on."""
        return self.host == socket.gethostname() and self.boot == boot_id()

    @property
    def is_alive(self) -> bool:
        """Whether its supervisor lives; only this machine's can be asked."""
        return self.is_here and identity(self.pid) == self.started

    def __str__(self) -> str:
        return f"pid {self.pid} on {self.host} since {self.since[:19]}"


@dataclass
class Lease:
    """A lease that is held; `fd` is the lock, for children to inherit, and None where the storage has no locks."""

    url: str
    holder: Holder
    fd: int | None = None

    def beat(self) -> None:
        """Show that the holder lives; a LostError if another one has taken over."""
        found = read(self.url)
        if found is not None and found.token > self.holder.token:
            raise lost(self.url, found)
        # A lower token is that of a holder who was paused in the middle of its own beat: ours counts.
        self.holder = replace(self.holder, beat=self.holder.beat + 1, beat_at=_now())
        _write(self.url, self.holder, sync=False)

    def release(self) -> None:
        """Let go, also when that cannot be written down; the next one need not wait."""
        try:
            found = read(self.url)
            if found is not None and found.name == self.holder.name:
                _write(self.url, replace(self.holder, released=True), sync=True)
        finally:
            if self.fd is not None:
                os.close(self.fd)
                self.fd = None


def read(url: str) -> Holder | None:
    """Who holds a lease, or held it last."""
    content = files.read(url)
    if not content:
        return None
    try:
        return Holder(**json.loads(content))
    except (ValueError, TypeError) as error:
        fix = "delete it once you are sure that no instance runs"
        raise HeldError(f"the lease {url} cannot be read: {error}; {fix}") from error


def must_hold(url: str, token: int) -> None:
    """A LostError if somebody has taken the lease after the one with this token."""
    found = read(url)
    if found is not None and found.token > token:
        raise lost(url, found)


def lost(url: str, found: Holder) -> LostError:
    """What to say when another one has taken over."""
    return LostError(f"the lease {url} was taken over by {found}; this instance stops without writing more")


@dataclass(frozen=True)
class Taking:
    """How a lease is taken."""

    url: str
    say: Callable[[str], None]
    leave_seconds: float = 60.0
    beat_seconds: float = BEAT_SECONDS
    stale_seconds: float = STALE_SECONDS

    def take(self) -> Lease:
        """The lease; a HeldError that names its holder otherwise."""
        fd = self._lock() if files.is_local(self.url) else None
        try:
            before = read(self.url)
            if before is not None and not before.released:
                self._refuse_if_alive(before, locked=fd is not None)
            holder = self._me(self._claim(before.token if before else 0))
            _write(self.url, holder, sync=True)
            self._forget_claims(holder.token)
            return Lease(self.url, holder, fd)
        except BaseException as error:
            if fd is not None:
                os.close(fd)
            if isinstance(error, OSError):
                raise _unwritable(self.url, error) from error
            raise

    def _lock(self) -> int:
        path = Path(f"{self.url}.lock")
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise _unwritable(self.url, error) from error
        try:
            self._wait_for_lock(fd)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def _wait_for_lock(self, fd: int) -> None:
        began, told = time.monotonic(), False
        while True:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            holder = read(self.url)
            waited = time.monotonic() - began
            if holder is not None and holder.is_here and not holder.is_alive:
                # Its supervisor is dead and its driver is finishing: that ends by itself.
                if waited > holder.leave_seconds + self.stale_seconds:
                    raise HeldError(f"the driver that {holder} left behind does not end; look for it with ps")
                if not told:
                    self.say(f"waiting for the driver of a killed run to end ({holder})")
                told = True
            elif (holder is not None and not holder.released) or waited > _STARTING_SECONDS:
                raise held(self.url, holder)
            time.sleep(_LOOK_SECONDS)

    def _refuse_if_alive(self, before: Holder, *, locked: bool) -> None:
        if before.is_here:
            # With the lock in hand every process of the one before is dead.
            if not locked and before.is_alive:
                raise held(self.url, before)
            return
        if abs(_seconds_since(before.beat_at)) < self.stale_seconds:
            raise held(self.url, before)
        # Clocks of two machines may differ, or jump: only a beat that does not move while we look is a dead one.
        self.say(f"waiting to see whether {before} is alive")
        deadline = time.monotonic() + 3 * self.beat_seconds
        while time.monotonic() < deadline:
            found = read(self.url)
            if found is not None and (found.token, found.beat) != (before.token, before.beat):
                raise held(self.url, found)
            time.sleep(self.beat_seconds / 10)

    def _claim(self, last: int) -> int:
        """A token that nobody else has; a file can be made by one only."""
        token = last + 1
        while not _create(f"{self.url}.{token}"):
            # Someone else is taking it, or died while doing so.
            time.sleep(self.beat_seconds)
            found = read(self.url)
            if found is not None and found.token > last:
                raise held(self.url, found)
            token += 1
        found = read(self.url)
        if found is not None and found.token >= token:
            # It was taken between our two looks, and its claim already forgotten.
            files.remove(f"{self.url}.{token}")
            raise held(self.url, found)
        return token

    def _forget_claims(self, token: int) -> None:
        folder, _, name = self.url.rpartition("/")
        for each in files.list_names(folder):
            number = each.removeprefix(f"{name}.")
            if number.isdigit() and int(number) < token:
                files.remove(f"{folder}/{each}")

    def _me(self, token: int) -> Holder:
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


def held(url: str, holder: Holder | None) -> HeldError:
    """What to say when another one holds it."""
    who = f"is held by {holder}" if holder is not None else "is being taken by another process"
    return HeldError(f"the lease {url} {who}; one instance writes to a storage: stop that one first (penstock stop)")


def _unwritable(url: str, error: OSError) -> HeldError:
    fix = "make that folder writable or set 'storage' to another place"
    return HeldError(f"cannot write to the storage {url.rpartition('/')[0]}: {error.strerror or error}; {fix}")


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
        # A store that cannot refuse a second writer: the last one to write has it, and both look again.
        return _last_writer(system, path)
    return True


def _last_writer(system: object, path: str) -> bool:
    mine = uuid.uuid4().hex.encode()
    system.pipe_file(path, mine)  # type: ignore[attr-defined]
    time.sleep(BEAT_SECONDS)
    return bool(system.cat_file(path) == mine)  # type: ignore[attr-defined]


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


def _seconds_since(moment: str) -> float:
    return (datetime.now(timezone.utc) - datetime.fromisoformat(moment)).total_seconds()
