"""jars.lock: the jars of each group, with their sizes and hashes."""

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
