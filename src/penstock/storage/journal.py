"""The journal: one small file per committed batch, with what it read, what it wrote, and its files' checksums."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from penstock.errors import PenstockError
from penstock.storage import files
from penstock.storage.checkpoint import digest

#: Spark keeps 100 batches in its logs.
KEPT = 120


class RecordError(PenstockError):
    """A record of the journal is damaged."""


@dataclass(frozen=True)
class Record:
    """A committed batch."""

    batch: int
    query: str
    at: str
    sources: tuple[Mapping[str, Any], ...] = ()
    rows_in: int = 0
    rows_out: int | None = None
    bad: Mapping[str, int] = field(default_factory=dict)
    receipts: Mapping[str, int] = field(default_factory=dict)
    """The last batch of each target; a target that Spark writes itself has its own log."""
    files: Mapping[str, str] = field(default_factory=dict)
    """The checksum of each file of the checkpoint."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """What the small ones hold, so that they can be restored."""
    log_url: str = ""
    log: Mapping[str, str] = field(default_factory=dict)
    """The checksums of the log that Spark keeps with a target's data."""
    adopted: bool = False
    """Whether it was made after the fact: the run that committed the batch died before it could."""


@dataclass(frozen=True)
class Journal:
    """The records of one sink, below its ledger."""

    url: str

    @property
    def numbers(self) -> list[int]:
        """The journaled batches."""
        names = (name.removesuffix(".json") for name in files.list_names(self.url))
        return sorted(int(name) for name in names if name.isdigit())

    def write(self, record: Record) -> None:
        """Append a batch, on the disk when this returns; the oldest record is deleted."""
        values = asdict(record)
        text = json.dumps({"record": values, "sum": _sum(values)})
        files.write_atomic(f"{self.url}/{record.batch}.json", text)
        files.remove(f"{self.url}/{record.batch - KEPT}.json")

    def read(self, batch: int) -> Record:
        """The record of a batch; a RecordError if it is not what was written."""
        url = f"{self.url}/{batch}.json"
        content = files.read(url) or b""
        try:
            found = json.loads(content)
            if found["sum"] != _sum(found["record"]):
                raise ValueError("its checksum differs")
            values = found["record"]
            return Record(**{**values, "sources": tuple(values["sources"])})
        except (ValueError, KeyError, TypeError) as error:
            fix = "restore it from a backup, or delete it: that batch can then not be verified"
            raise RecordError(f"the record {url} is damaged: {error}; {fix}") from error

    def last(self) -> Record | None:
        """The newest record."""
        known = self.numbers
        return self.read(known[-1]) if known else None


def _sum(values: Mapping[str, Any]) -> str:
    return digest(json.dumps(values, sort_keys=True).encode())
