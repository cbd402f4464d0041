"""The journal: one small file per committed batch, with what it read, what it wrote, and its files' checksums."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from penstock.storage import files
from penstock.storage.files import RecordError, read_record, write_record

#: Spark keeps 100 batches in its logs.
KEPT = 120

_REMOVE = "`penstock checkpoint restore` journals that batch again from the checkpoint"


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
    state: Mapping[str, str] = field(default_factory=dict)
    """The checksum of each state file that the batch wrote."""
    schemas: Mapping[str, str] = field(default_factory=dict)
    """The files that describe the state, in base64."""
    texts: Mapping[str, str] = field(default_factory=dict)
    """What the small ones hold, so that they can be restored."""
    log_url: str = ""
    log: Mapping[str, str] = field(default_factory=dict)
    """The checksums of the log that Spark keeps with a target's data."""
    log_texts: Mapping[str, str] = field(default_factory=dict)
    """What the small ones of it hold."""
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
        write_record(f"{self.url}/{record.batch}.json", asdict(record))
        files.remove(f"{self.url}/{record.batch - KEPT}.json")

    def read(self, batch: int) -> Record:
        """The record of a batch; a RecordError if it is not what was written."""
        url = f"{self.url}/{batch}.json"
        found = read_record(url, _REMOVE)
        try:
            if found is None:
                raise ValueError("it is missing")
            record = Record(**{**found, "sources": tuple(found["sources"])})
            if record.batch != batch:
                raise ValueError(f"it is of batch {record.batch}")
        except (ValueError, KeyError, TypeError) as error:
            raise RecordError(url, str(error), _REMOVE) from error
        return record

    def readable(self) -> list[Record]:
        """Every record that is not damaged, the oldest first."""
        found = []
        for number in self.numbers:
            with suppress(RecordError):
                found.append(self.read(number))
        return found

    def last(self) -> Record | None:
        """The newest record."""
        known = self.numbers
        return self.read(known[-1]) if known else None
