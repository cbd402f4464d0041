"""The folder of jars on this machine: where it is, and whether what lies in it is what was pinned."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import JarError
from penstock.jars.lock import LOCK, Jar, Lock

_SHOWN = 3


@dataclass(frozen=True)
class Problem:
    """A jar that cannot be used, and what was found in its place."""

    jar: Jar
    says: str
    missing: bool

    def __str__(self) -> str:
        return f"jar {self.jar.coordinate} {self.says}"


def folder() -> Path:
    """Where the jars are: under $PENSTOCK_CACHE, $XDG_CACHE_HOME/penstock or ~/.cache/penstock."""
    own, shared = os.environ.get("PENSTOCK_CACHE"), os.environ.get("XDG_CACHE_HOME")
    home = Path(own) if own else Path(shared or Path.home() / ".cache") / "penstock"
    return home.expanduser().absolute() / "jars"


def paths(groups: Iterable[str], lock: Lock = LOCK) -> list[Path]:
    """The files of some groups, ready for a class path; an error names each one that is missing or damaged."""
    groups = list(groups)
    bad = problems(groups, lock)
    if bad:
        raise JarError(_sentence(bad, groups))
    return [folder() / jar.file_name for jar in lock.jars(groups)]


def problems(groups: Iterable[str], lock: Lock = LOCK) -> list[Problem]:
    """What stands in the way of using some groups; a file that was hashed before is not hashed again."""
    found = (inspect(jar) for jar in lock.jars(groups))
    return [problem for problem in found if problem is not None]


def verify(groups: Iterable[str], lock: Lock = LOCK) -> list[Problem]:
    """The same after hashing every file anew."""
    found = (inspect(jar, anew=True) for jar in lock.jars(groups))
    return [problem for problem in found if problem is not None]


def inspect(jar: Jar, *, anew: bool = False) -> Problem | None:
    """What is wrong with a jar in the cache, if anything."""
    path = folder() / jar.file_name
    try:
        found = path.stat()
    except FileNotFoundError:
        return Problem(jar, f"is not in {path.parent}", missing=True)
    if not anew and _read(_stamp(path)) == _seal(jar, found):
        return None
    says = damage(jar, path)
    return Problem(jar, f"is damaged: {says}, in {path}", missing=False) if says else None


def damage(jar: Jar, path: Path) -> str | None:
    """How a file differs from the pinned jar; a file that does not is stamped, so that it is hashed once."""
    before = path.stat()
    if before.st_size != jar.size_bytes:
        return f"{before.st_size} bytes found, {jar.size_bytes} expected"
    found = sha256(path)
    if found != jar.sha256:
        return f"sha256 {found} found, {jar.sha256} expected"
    # A cache baked into an image can be read-only: then each start pays for the hash, and still works.
    with contextlib.suppress(OSError):
        _stamp(path).write_text(_seal(jar, before), encoding="utf-8")
    return None


def sha256(path: Path) -> str:
    """The hash of a file, as in jars.lock."""
    hashed = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            hashed.update(chunk)
    return hashed.hexdigest()


def _seal(jar: Jar, found: os.stat_result) -> str:
    return f"{found.st_size} {found.st_mtime_ns} {jar.sha256}\n"


def _stamp(path: Path) -> Path:
    return path.with_name(f"{path.name}.ok")


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return None


def _sentence(bad: Sequence[Problem], groups: Sequence[str]) -> str:
    lines = [str(problem) for problem in bad[:_SHOWN]]
    if len(bad) > _SHOWN:
        lines.append(f"and {len(bad) - _SHOWN} more jars")
    return "\n".join([*lines[:-1], f"{lines[-1]}; run `penstock jars fetch {' '.join(groups)}`"])
