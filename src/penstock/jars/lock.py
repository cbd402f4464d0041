"""jars.lock as data: which jars belong to a group, and what each one must weigh and hash to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
        """Its name in the cache; the organisation keeps two jars of one name apart."""
        return f"{self.organisation}_{self.name}-{self.version}.jar"


@dataclass(frozen=True)
class Lock:
    """The jars of each group, in the order of the file."""

    groups: Mapping[str, tuple[Jar, ...]]

    def jars(self, groups: Iterable[str]) -> list[Jar]:
        """The jars of some groups, each one once; an unknown group is an error with the nearest word."""
        return list(dict.fromkeys(jar for group in groups for jar in self._group(group)))

    def _group(self, name: str) -> tuple[Jar, ...]:
        if name in self.groups:
            return self.groups[name]
        raise CallError(f"no group of jars is called {name!r}; {did_you_mean(name, self.groups)}")


def read(text: str, where: str = "jars.lock") -> Lock:
    """The lock in a text of lines `group organisation:name:version bytes sha256`; `#` starts a comment."""
    groups: dict[str, list[Jar]] = {}
    seen: dict[str, Jar] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        jar = _jar(words, f"{where}:{number}")
        if seen.setdefault(jar.coordinate, jar) != jar:
            raise JarError(f"{where}:{number}: {jar.coordinate} is pinned twice, with two sizes or hashes; keep one")
        groups.setdefault(words[0], []).append(jar)
    return Lock({group: tuple(jars) for group, jars in groups.items()})


def _jar(words: list[str], at: str) -> Jar:
    parts = words[1].split(":") if len(words) == 4 else []
    if len(parts) != 3 or not words[2].isdecimal() or len(words[3]) != 64:
        raise JarError(f"{at}: found {' '.join(words)!r}; a line is `group organisation:name:version bytes sha256`")
    organisation, name, version = parts
    return Jar(organisation, name, version, size_bytes=int(words[2]), sha256=words[3])


_FILE = Path(__file__).with_name("jars.lock")

LOCK = read(_FILE.read_text(encoding="utf-8"), str(_FILE))
GROUPS = tuple(LOCK.groups)
