"""The local cache of jars: its location, and whether its files are the pinned ones."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import JarError
from penstock.jars.lock import LOCK, Jar, Lock

_MAX_SHOWN = 3


@dataclass(frozen=True)
class Problem:
    """A jar that cannot be used, and why."""

    jar: Jar
    says: str
    missing: bool

    def __str__(self) -> str:
        return f"jar {self.jar.coordinate} {self.says}"


def cache_folder() -> Path:
    """The folder of the jars, in $PENSTOCK_CACHE, $XDG_CACHE_HOME/penstock or ~/.cache/penstock."""
    own, shared = os.environ.get("PENSTOCK_CACHE"), os.environ.get("XDG_CACHE_HOME")
    home = Path(own) if own else Path(shared or Path.home() / ".cache") / "penstock"
    return home.expanduser().absolute() / "jars"


def paths(groups: Iterable[str], lock: Lock = LOCK) -> list[Path]:
    """The files of some groups, for a class path; an error names missing and damaged ones."""
    groups = list(groups)
    bad = find_problems(groups, lock)
    if bad:
        raise JarError(_format_problems(bad, groups))
    return [cache_folder() / jar.file_name for jar in lock.jars(groups)]


def find_problems(groups: Iterable[str], lock: Lock = LOCK) -> list[Problem]:
    """Missing and damaged jars of some groups; an unchanged file is not hashed again."""
    found = (inspect(jar) for jar in lock.jars(groups))
    return [problem for problem in found if problem is not None]


def verify(groups: Iterable[str], lock: Lock = LOCK) -> list[Problem]:
    """Missing and damaged jars of some groups, with every file hashed again."""
    found = (inspect(jar, rehash=True) for jar in lock.jars(groups))
    return [problem for problem in found if problem is not None]


def inspect(jar: Jar, *, rehash: bool = False) -> Problem | None:
    """Check a jar in the cache; None if it is the pinned one."""
    path = cache_folder() / jar.file_name
    try:
        found = path.stat()
    except FileNotFoundError:
        return Problem(jar, f"is not in {path.parent}", missing=True)
    if not rehash and _read(_stamp_path(path)) == _stamp_text(jar, found):
        return None
    says = find_damage(jar, path)
    return Problem(jar, f"is damaged: {says}, in {path}", missing=False) if says else None


def find_damage(jar: Jar, path: Path) -> str | None:
    """How a file differs from the pinned jar; None, and a stamp that saves the next hash, if it does not."""
    before = path.stat()
    if before.st_size != jar.size_bytes:
        return f"{before.st_size} bytes found, {jar.size_bytes} expected"
    found = sha256(path)
    if found != jar.sha256:
        return f"sha256 {found} found, {jar.sha256} expected"
    # A cache baked into an image may be read-only: then every start hashes again.
    with contextlib.suppress(OSError):
        _stamp_path(path).write_text(_stamp_text(jar, before), encoding="utf-8")
    return None


def sha256(path: Path) -> str:
    """Hash a file, as in jars.lock."""
    hashed = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            hashed.update(chunk)
    return hashed.hexdigest()


def _stamp_text(jar: Jar, found: os.stat_result) -> str:
    return f"{found.st_size} {found.st_mtime_ns} {jar.sha256}\n"


def _stamp_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.ok")


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return None


def _format_problems(bad: Sequence[Problem], groups: Sequence[str]) -> str:
    lines = [str(problem) for problem in bad[:_MAX_SHOWN]]
    if len(bad) > _MAX_SHOWN:
        lines.append(f"and {len(bad) - _MAX_SHOWN} more jars")
    return "\n".join([*lines[:-1], f"{lines[-1]}; run `penstock jars fetch {' '.join(groups)}`"])
