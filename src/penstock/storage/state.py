"""The files that Spark keeps a query's state in: which of them a version is loaded from, and what is wrong with them.

state/<operator>/<partition>/[<store>/]
  7.zip, 7.snapshot        everything at version 7
  8.changelog, 8.delta     what changed from version 7 to 8

Version 8 is loaded from the newest snapshot up to it and every change since; without a snapshot from the first change.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from penstock.storage.checkpoint import Checkpoint, differs_from_crc
from penstock.storage.files import digest

_SNAPSHOTS = ("zip", "snapshot")
_CHANGES = ("changelog", "delta")


@dataclass(frozen=True)
class Store:
    """The files of one partition of one operator, by version."""

    folder: Path
    snapshots: Mapping[int, Path]
    changes: Mapping[int, Path]

    def chain(self, version: int, without: frozenset[Path] = frozenset()) -> list[Path] | None:
        """What a version is loaded from if some files are not to be used; None if it cannot be loaded then."""
        usable = [number for number, file in self.snapshots.items() if number <= version and file not in without]
        for base in sorted([0, *usable], reverse=True):
            changes = [self.changes.get(number) for number in range(base + 1, version + 1)]
            if all(file is not None and file not in without for file in changes):
                start = [self.snapshots[base]] if base in usable else []
                return [*start, *(file for file in changes if file is not None)]
        return None


def stores(checkpoint: Checkpoint) -> list[Store]:
    """The stores of a local checkpoint."""
    found: dict[Path, tuple[dict[int, Path], dict[int, Path]]] = {}
    for name in checkpoint.state_files():
        file = Path(checkpoint.url, name)
        number, _, suffix = file.name.partition(".")
        snapshots, changes = found.setdefault(file.parent, ({}, {}))
        if suffix in _SNAPSHOTS:
            snapshots[int(number)] = file
        elif suffix in _CHANGES:
            changes[int(number)] = file
    return [Store(folder, *files) for folder, files in found.items()]


def digests(checkpoint: Checkpoint, version: int) -> dict[str, str]:
    """The checksums of the files that a batch has written."""
    return {name: digest(Path(checkpoint.url, name).read_bytes()) for name in checkpoint.state_files(version)}


def changes_to_load(checkpoint: Checkpoint, version: int) -> list[Path]:
    """The changes that Spark reads when it loads a version."""
    chains = (store.chain(version) or [] for store in stores(checkpoint))
    return [file for chain in chains for file in chain if file.suffix[1:] in _CHANGES]


def find_damage(checkpoint: Checkpoint, known: Mapping[str, str], chosen: Iterable[Path]) -> Iterator[tuple[Path, str]]:
    """Which of the chosen files are missing, or not what was written; `known` are checksums by name."""
    for file in chosen:
        expected = known.get(str(file.relative_to(checkpoint.url)))
        if not file.exists():
            yield file, "is missing"
        elif expected is not None and digest(file.read_bytes()) != expected:
            yield file, "has changed since it was written"
        elif says := _damage(file):
            yield file, says


def _damage(file: Path) -> str:
    if not file.stat().st_size:
        return "is empty"
    if differs_from_crc(file):
        return "differs from Hadoop's checksum of it"
    if file.suffix == ".zip":
        try:
            with zipfile.ZipFile(file) as archive:
                return "is damaged" if archive.testzip() else ""
        except (zipfile.BadZipFile, OSError, EOFError) as error:
            return f"is damaged: {error}"
    return ""
