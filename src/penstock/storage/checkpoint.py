"""Spark's checkpoint of one query, read as files: no JVM.

metadata            the query's id
offsets/7           where batch 7 ends, written before it runs
commits/7           batch 7 is done
sources/0/7         what a file source has seen
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.storage import files

_LOGS = ("offsets", "commits")
_MOST_TEXT = 65_536


def texts(files: Mapping[str, bytes]) -> dict[str, str]:
    """The files that are small enough to be stored and restored."""
    return {name: content.decode() for name, content in files.items() if len(content) <= _MOST_TEXT}


def digest(content: bytes) -> str:
    """The checksum that records carry."""
    return hashlib.sha256(content).hexdigest()


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

    def rewrite_offsets(self, batch: int, line: int, positions: Any) -> None:
        """Let one source continue from other positions after a committed batch; state and batch numbers stay."""
        name = f"offsets/{batch}"
        lines = (self.read(name) or b"").decode().split("\n")
        lines[2 + line] = json.dumps(positions, separators=(",", ":"))
        files.write_atomic(f"{self.url}/{name}", "\n".join(lines))
        files.remove_crc(f"{self.url}/{name}")


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
