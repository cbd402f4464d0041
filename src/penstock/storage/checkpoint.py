"""Spark's checkpoint of one query, read as files: no JVM.

metadata            the query's id
offsets/7           where batch 7 ends, written before it runs
commits/7           batch 7 is done
sources/0/7         what a file source has seen
state/0/1/8.changelog   what batch 7 changed in the state of operator 0, partition 1; 8.zip is a snapshot of all of it
.../.7.crc          Hadoop's checksum of a file; Spark refuses a file that differs from it
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.storage import files

_LOGS = ("offsets", "commits")
_MOST_TEXT = 65_536
_CRC_HEADER = 8
_MOST_CRC_BYTES = 65_536


def texts(files: Mapping[str, bytes]) -> dict[str, str]:
    """The files that are small enough to be stored and restored."""
    return {name: content.decode() for name, content in files.items() if len(content) <= _MOST_TEXT}


@dataclass(frozen=True)
class Checkpoint:
    """The checkpoint at a URL; every call reads it again."""

    url: str

    @property
    def query(self) -> str:
        """Spark's id of the query; '' if there is none yet."""
        content = files.read(f"{self.url}/metadata")
        try:
            return str(json.loads(content or b"{}").get("id", ""))
        except ValueError:
            return ""

    def numbers(self, log: str) -> list[int]:
        """The batches in `offsets` or `commits`."""
        return sorted(int(name) for name in files.list_names(f"{self.url}/{log}") if name.isdigit())

    def read(self, name: str) -> bytes | None:
        """The content of one of its files."""
        return files.read(f"{self.url}/{name}")

    def files(self, batch: int, known: Mapping[str, bytes] | None = None) -> dict[str, bytes]:
        """The files of a batch, with their contents; those that are `known` are not read again."""
        names = ["metadata", *(f"{log}/{batch}" for log in _LOGS)]
        for source in files.list_names(f"{self.url}/sources"):
            names += [f"sources/{source}/{batch}", f"sources/{source}/{batch}.compact"]
        found = {name: (known or {}).get(name) or self.read(name) for name in names}
        return {name: content for name, content in found.items() if content is not None}

    def offsets(self, batch: int) -> list[Any]:
        """Where each source ended in a batch."""
        content = self.read(f"offsets/{batch}") or b""
        return [None if line == "-" else json.loads(line) for line in content.decode().split("\n")[2:]]

    def state_files(self, version: int | None = None) -> Iterator[str]:
        """The state files of one version, or of all; batch 7 starts from version 7. Only of a local checkpoint."""
        place = Path(self.url, "state")
        if not files.is_local(self.url) or not place.is_dir():
            return
        for path in _walk(str(place)):
            number = path.rpartition("/")[2].split(".")[0]
            if number.isdigit() and version in (None, int(number)):
                yield path[len(self.url) + 1 :]

    def state_schemas(self) -> dict[str, bytes]:
        """The files that describe the state, which do not change; only of a local checkpoint."""
        if not files.is_local(self.url):
            return {}
        found = sorted(Path(self.url, "state").glob("*/**/_metadata/**/*"))
        kept = [file for file in found if file.is_file() and not file.name.startswith(".")]
        return {str(file.relative_to(self.url)): file.read_bytes() for file in kept}

    def fsync_start(self, batch: int) -> None:
        """What a batch starts from is on the disk when this returns: where the one before ended, and the state."""
        names = [*(f"{log}/{batch - 1}" for log in _LOGS), *self.state_files(batch)]
        files.fsync_files(path for name in names if (path := Path(self.url, name)).exists())

    def fsync_state(self, version: int) -> None:
        """The state of this version is on the disk when this returns."""
        files.fsync_files(Path(self.url, name) for name in self.state_files(version))

    def set_query(self, query: str) -> None:
        """Give the checkpoint another id: targets take its batches for those of a new one."""
        files.write_atomic(f"{self.url}/metadata", json.dumps({"id": query}))
        files.remove_crc(f"{self.url}/metadata")

    def rewrite_offsets(self, batch: int, line: int, positions: Any) -> None:
        """Let one source continue from other positions after a committed batch; state and batch numbers stay."""
        name = f"offsets/{batch}"
        lines = (self.read(name) or b"").decode().split("\n")
        lines[2 + line] = json.dumps(positions, separators=(",", ":"))
        files.write_atomic(f"{self.url}/{name}", "\n".join(lines))
        files.remove_crc(f"{self.url}/{name}")


def _walk(folder: str) -> Iterator[str]:
    """The files below a folder; asked before every batch, so without a `stat` of each: there may be 20,000."""
    with os.scandir(folder) as found:
        for entry in sorted(found, key=lambda entry: entry.name):
            if entry.is_dir():
                yield from _walk(entry.path)
            else:
                yield entry.path


def damage(name: str, content: bytes | None) -> str:
    """What is wrong with the text of a file of `offsets` or `commits`; '' if Spark can read it."""
    if not content:
        return "is empty" if content is not None else "is missing"
    try:
        version, *lines = content.decode("utf-8").split("\n")
        if not version.startswith("v") or not lines:
            return "is cut short" if version.startswith("v") else "does not begin with a version"
        if name.startswith("offsets") and len(lines) < 2:
            return "is cut short"
        for line in lines:
            if line != "-":
                json.loads(line)
    except ValueError as error:
        return f"is not a log of Spark: {error}"
    return ""


def differs_from_crc(path: Path) -> bool:
    """Whether Hadoop's checksum is of another content than the file has; Spark then refuses to read the file."""
    sums = path.with_name(f".{path.name}.crc")
    if not sums.exists():
        return False
    header, content = sums.read_bytes(), path.read_bytes()
    if len(header) < _CRC_HEADER or header[:4] != b"crc\0":
        # Hadoop ignores a checksum file that it cannot read.
        return False
    size = struct.unpack(">i", header[4:_CRC_HEADER])[0]
    if not 0 < size <= _MOST_CRC_BYTES:
        # Hadoop would allocate a buffer of that size.
        return True
    parts = (content[at : at + size] for at in range(0, len(content), size))
    return b"".join(struct.pack(">I", zlib.crc32(part)) for part in parts) != header[_CRC_HEADER:]
