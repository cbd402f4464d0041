"""One writer per storage: a kernel lock on this machine, and a renewed lease with a fencing token for other machines.

The driver and its JVM inherit the kernel lock, so it is free only when all of them are dead. It lies beside the lease,
or for an object store in the temporary folder of this machine. Other machines that share the storage see the renewals:
a lease that is not renewed is taken over with a higher token. A holder that finds a higher token than its own has lost
the lease and stops writing.

    holder   ── renews 7.1 ── renews 7.2 ── (paused) ──────────── reads 8: lost, stops
    another  ─────────────── refused ────── sees 7.2 unchanged ── takes over as 8
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import socket
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime, timezone
from pathlib import Path

from penstock.errors import PenstockError
from penstock.processes import boot_id, identity, is_open
from penstock.storage import files

RENEW_SECONDS = 2.0
STALE_SECONDS = 30.0
_POLL_SECONDS = 0.05
_STARTING_SECONDS = 1.0


class LeaseHeldError(PenstockError):
    """Another instance holds the lease."""


class LeaseUnreadableError(LeaseHeldError):
    """The lease file is damaged, so its holder is unknown."""

    retry = True


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
    lock: str = ""
    """Device and inode of its kernel lock; empty in leases of release 0.1."""

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
    """A lease held by this process; `fd` is the kernel lock for children to inherit, None without one."""

    url: str
    holder: Holder
    fd: int | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def renew(self) -> None:
        """Show that the holder is alive; LeaseLostError if another one has taken over."""
        with self._lock:
            if self.holder.released:
                return
            found = self._read()
            # A lower token was written by an older holder that was paused during its own renewal: overwrite it.
            beat = found.beat if found is not None and found.name == self.holder.name else 0
            self.holder = replace(self.holder, beat=max(beat, self.holder.beat) + 1, beat_at=_now())
            _write(self.url, self.holder, sync=False)

    def release(self) -> None:
        """Release the lease, so that the next holder need not wait; the lock also if the file cannot be written."""
        with self._lock:
            self.holder = replace(self.holder, released=True)
            try:
                if self._is_ours():
                    _write(self.url, self.holder, sync=True)
            finally:
                if self.fd is not None:
                    os.close(self.fd)
                    self.fd = None

    def _is_ours(self) -> bool:
        try:
            found = self._read()
        except PenstockError:
            return False
        return found is None or found.name == self.holder.name

    def _read(self) -> Holder | None:
        """The lease as it is; None also if it is damaged, because a damaged one cannot be acquired."""
        try:
            found = read(self.url)
        except LeaseUnreadableError:
            if max(_claims(self.url), default=0) > self.holder.token:
                raise
            return None
        if found is not None and found.token > self.holder.token:
            raise lost_error(self.url, found)
        return found


def read(url: str) -> Holder | None:
    """The current or last holder; None if there was none."""
    content = files.read(_path(url))
    if not content:
        return None
    try:
        return _parse(content)
    except (ValueError, TypeError, AttributeError) as error:
        fix = "delete it once you are sure that no instance runs"
        raise LeaseUnreadableError(f"the lease {url} cannot be read: {error}; {fix}") from error


_TYPES: dict[str, type | tuple[type, ...]] = {"int": int, "str": str, "float": (int, float), "bool": bool}


def _parse(content: bytes) -> Holder:
    found = json.loads(content)
    # A later release may have more fields.
    facts = {each.name: found[each.name] for each in fields(Holder) if each.name in found}
    for each in fields(Holder):
        if each.name in facts and not isinstance(facts[each.name], _TYPES[str(each.type)]):
            raise TypeError(f"{each.name} is {facts[each.name]!r}")
    return Holder(**facts)


def must_hold(url: str, token: int) -> None:
    """Raise LeaseLostError if the lease has been taken over since this token."""
    deadline = time.monotonic() + 3 * RENEW_SECONDS
    while True:
        try:
            found = read(url)
            break
        except LeaseUnreadableError:
            # The next renewal of its holder replaces it.
            if time.monotonic() > deadline:
                raise
        time.sleep(_POLL_SECONDS)
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
        fd = self._lock()
        try:
            before = read(self.url)
            if before is not None and not before.released:
                self._refuse_if_alive(before, fd)
            lease = Lease(self.url, self._new_holder(self._claim(before.token if before else 0), _lock_id(fd)), fd)
            _write(self.url, lease.holder, sync=True)
            if max(_claims(self.url), default=0) > lease.holder.token:
                # We were paused before that write, and another process has waited for it in vain.
                fd = None
                lease.release()
                raise held_error(self.url, None)
            self._remove_claims(lease.holder.token)
            return lease
        except BaseException as error:
            if fd is not None:
                os.close(fd)
            if isinstance(error, OSError):
                raise _unwritable_error(self.url, error) from error
            raise

    def _lock(self) -> int | None:
        """The kernel lock; None on a machine whose temporary folder cannot have one for an object store."""
        is_local = files.is_local(_path(self.url))
        try:
            fd = _open_lock(Path(f"{_path(self.url)}.lock") if is_local else _machine_lock(self.url))
        except OSError as error:
            if not is_local:
                return None
            raise _unwritable_error(self.url, error) from error
        try:
            self._wait_for_lock(fd)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def _wait_for_lock(self, fd: int) -> None:
        started, reported = time.monotonic(), False
        holder: Holder | None = None
        while True:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            # It may be missing for a moment.
            holder = read(self.url) or holder
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

    def _refuse_if_alive(self, before: Holder, fd: int | None) -> None:
        if self._has_ended(before, fd):
            return
        if before.is_alive or (not before.is_here and abs(_seconds_since(before.beat_at)) < self.stale_seconds):
            raise held_error(self.url, before)
        if before.is_here:
            self.print_status(f"waiting for the driver of a killed run to end ({before})")
            self._wait_until_quiet(before, before.leave_seconds + self.stale_seconds, fd)
        else:
            # Clocks of two machines may differ or jump: a holder is dead only if it does not renew while we watch.
            self.print_status(f"waiting to see whether {before} is alive")
            self._wait_until_quiet(before, 3 * self.renew_seconds, fd)

    def _has_ended(self, before: Holder, fd: int | None) -> bool:
        """Whether the kernel says that every process of the last holder is dead."""
        if fd is None or before.host != socket.gethostname():
            return False
        is_local = files.is_local(_path(self.url))
        if not before.is_here:
            # This machine was started again, or another one has its name: that one cannot reach a disk of ours.
            return is_local and _is_own_disk(fd)
        if before.lock in (_lock_id(fd), "" if is_local else None):
            return True
        # Somebody has removed the lock file or copied the storage.
        return is_local and not before.is_alive and not is_open(before.lock)

    def _wait_until_quiet(self, before: Holder, seconds: float, fd: int | None) -> None:
        """Return when the lease was released or not renewed for so long; the driver of a killed run renews it too."""
        started = renewed = time.monotonic()
        last = before
        while (now := time.monotonic()) - renewed < seconds and not self._has_ended(before, fd):
            found = read(self.url)
            if found is not None and found.name == before.name and found.released:
                return
            if found is not None and (found.token, found.beat) != (last.token, last.beat):
                is_orphan = before.is_here and found.name == before.name
                if not is_orphan or now - started > seconds:
                    raise held_error(self.url, found)
                last, renewed = found, now
            time.sleep(self.renew_seconds / 10)

    def _claim(self, last: int) -> int:
        """A unique token: only one process can create its claim file."""
        token = last + 1
        while not _create(f"{_path(self.url)}.{token}"):
            # Another process is acquiring the lease, or died while doing so.
            time.sleep(self.renew_seconds)
            found = read(self.url)
            if found is not None and found.token > last:
                raise held_error(self.url, found)
            token += 1
        found = read(self.url)
        if found is not None and found.token > last:
            # It was acquired between our two reads, and its claim file perhaps already removed.
            files.remove(f"{_path(self.url)}.{token}")
            raise held_error(self.url, found)
        return token

    def _remove_claims(self, token: int) -> None:
        for number in _claims(self.url):
            if number < token:
                files.remove(f"{_path(self.url)}.{number}")

    def _new_holder(self, token: int, lock: str) -> Holder:
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
            lock=lock,
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


def _path(url: str) -> str:
    """A path for a URL of this machine's file system, which has locks and atomic renames."""
    return url.removeprefix("file://")


def _write(url: str, holder: Holder, *, sync: bool) -> None:
    files.write_atomic(_path(url), json.dumps(asdict(holder)), sync=sync)


def _claims(url: str) -> list[int]:
    """The tokens for which there are claim files."""
    folder, _, name = _path(url).rpartition("/")
    rests = [each.removeprefix(f"{name}.") for each in files.list_names(folder)]
    return [int(rest) for rest in rests if rest.isdecimal()]


def _machine_lock(url: str) -> Path:
    """The lock of a storage without locks, for the processes of this user on this machine."""
    folder = Path(tempfile.gettempdir(), f"penstock-locks-{os.getuid()}")
    folder.mkdir(exist_ok=True, mode=0o700)
    if folder.stat().st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to another user")
    return folder / hashlib.sha256(url.encode()).hexdigest()


def _open_lock(path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)


def _lock_id(fd: int | None) -> str:
    if fd is None:
        return ""
    found = os.fstat(fd)
    return f"{found.st_dev}:{found.st_ino}"


def _is_own_disk(fd: int) -> bool:
    """Whether the file is on a disk that no other machine has mounted."""
    device = os.fstat(fd).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    mounts = Path("/proc/self/mountinfo")
    lines = mounts.read_text(encoding="utf-8").splitlines() if mounts.exists() else []
    types = {line.partition(" - ")[2].split()[0] for line in lines if line.split()[2] == number}
    # Network file systems have no device, and these two share one.
    return bool(os.major(device) and types) and types.isdisjoint({"gfs2", "ocfs2"})


def _create(url: str) -> bool:
    if files.is_local(url):
        try:
            os.close(os.open(url, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            return False
        return True
    import fsspec

    system, path = fsspec.url_to_fs(url)
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
    try:
        return (datetime.now(timezone.utc) - datetime.fromisoformat(moment)).total_seconds()
    except (ValueError, TypeError):
        return float("inf")
