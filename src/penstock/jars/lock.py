"""The pinned list of jars and the cache on this machine that holds them, verified by checksum."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import CallError, JarError
from penstock.text import did_you_mean


@dataclass(frozen=True)
class Jar:
    """One jar, pinned by version, size and hash."""

    organisation: str
    name: str
    version: str
    size_bytes: int
    sha256: str

    @property
    def coordinate(self) -> str:
        """`organisation:name:version`, as Spark and Ivy users write it."""
        return f"{self.organisation}:{self.name}:{self.version}"

    @property
    def file_name(self) -> str:
        """The file name in the cache, unique across organisations."""
        return f"{self.organisation}_{self.name}-{self.version}.jar"


@dataclass(frozen=True)
class Lock:
    """The jars of each group, in the order of the file."""

    groups: Mapping[str, tuple[Jar, ...]]

    def jars(self, groups: Iterable[str]) -> list[Jar]:
        """The jars of some groups without duplicates; an unknown group is an error with the nearest name."""
        return list(dict.fromkeys(jar for group in groups for jar in self._group(group)))

    def _group(self, name: str) -> tuple[Jar, ...]:
        if name in self.groups:
            return self.groups[name]
        raise CallError(f"unknown group of jars {name!r}; {did_you_mean(name, self.groups)}")


def parse(text: str, where: str = "jars.lock") -> Lock:
    """Parse lines `group organisation:name:version bytes sha256`; `#` starts a comment."""
    groups: dict[str, list[Jar]] = {}
    seen: dict[str, Jar] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        jar = _parse_jar(words, f"{where}:{number}")
        if seen.setdefault(jar.coordinate, jar) != jar:
            raise JarError(f"{where}:{number}: {jar.coordinate} is pinned twice, with two sizes or hashes; keep one")
        groups.setdefault(words[0], []).append(jar)
    return Lock({group: tuple(jars) for group, jars in groups.items()})


def _parse_jar(words: list[str], at: str) -> Jar:
    parts = words[1].split(":") if len(words) == 4 else []
    if len(parts) != 3 or not words[2].isdecimal() or len(words[3]) != 64:
        raise JarError(f"{at}: found {' '.join(words)!r}; write `group organisation:name:version bytes sha256`")
    organisation, name, version = parts
    return Jar(organisation, name, version, size_bytes=int(words[2]), sha256=words[3])


_FILE = Path(__file__).with_name("jars.lock")

LOCK = parse(_FILE.read_text(encoding="utf-8"), str(_FILE))
GROUPS = tuple(LOCK.groups)


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
