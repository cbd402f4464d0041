"""What is on record of every batch.

ledger    which batch each target of a sink has, written after the target's own write, read when a query starts
journal   one small file per committed batch, with what it read, what it wrote, and its files' checksums
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from penstock.storage import files
from penstock.storage.checkpoint import Checkpoint, texts
from penstock.storage.files import RecordError, read_record, write_record
from penstock.storage.layout import Storage

_RESTORE = "`penstock checkpoint restore` writes it again from the journal"


@dataclass(frozen=True)
class Entry:
    """The last batch of one target, and the checkpoint that it belongs to."""

    query: str = ""
    batch: int = -1


@dataclass(frozen=True)
class Intent:
    """The batch that was last in progress, and the small files of its checkpoint; batch -1 if there was none."""

    batch: int = -1
    texts: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Ledger:
    """The last batch of each target of one sink, one small file per target."""

    storage: Storage
    sink: str
    batch_files: tuple[int, Mapping[str, bytes]] = (-1, {})
    """The batch in progress and its files of the checkpoint, as the intent record has them."""
    _known: dict[str, Entry] = field(default_factory=dict)

    @property
    def query(self) -> str:
        """Spark's id of the checkpoint as it is now; '' if there is none yet."""
        return Checkpoint(self.storage.checkpoint(self.sink)).query

    def entry(self, target: str) -> Entry:
        """The last batch of a target."""
        if target not in self._known:
            self._known[target] = read_entry(self.storage.target(self.sink, target))
        return self._known[target]

    def has(self, target: str, query: str, batch: int) -> bool:
        """Whether the target has this batch of this checkpoint; a batch is never written before an earlier one."""
        known = self.entry(target)
        return known.query == query and batch <= known.batch

    def begin(self, batch: int) -> None:
        """Write the intent record of a batch; call it before any target gets a row."""
        self.batch_files = (batch, write_intent(self.storage, self.sink, batch))

    def write(self, target: str, query: str, batch: int) -> None:
        """The target has this batch; on the disk when this returns."""
        write_record(self.storage.target(self.sink, target), {"query": query, "batch": batch})
        self._known[target] = Entry(query, batch)


def read_entry(url: str) -> Entry:
    """One entry of a ledger; an empty one if there is none yet."""
    found = read_record(url, _RESTORE)
    if found is None:
        return Entry()
    try:
        return Entry(str(found["query"]), int(found["batch"]))
    except (ValueError, KeyError, TypeError) as error:
        raise RecordError(url, f"no batch in it ({error})", _RESTORE) from error


def target_names(storage: Storage, sink: str) -> list[str]:
    """The targets that have an entry."""
    names = files.list_names(storage.ledger(sink))
    return [name.removesuffix(".json") for name in names if name.endswith(".json") and not name.startswith(".")]


def read_entries(storage: Storage, sink: str) -> dict[str, Entry]:
    """The entry of each target of a sink."""
    return {target: read_entry(storage.target(sink, target)) for target in target_names(storage, sink)}


def write_intent(storage: Storage, sink: str, batch: int) -> dict[str, bytes]:
    """Intent record: the offsets of the batch in progress, fsynced before any target is written; returns those files.

    Spark does not fsync its logs or its state. What the batch starts from is fsynced here too: should the power fail,
    it can be replayed. Object stores lose nothing in a power cut, so they need none.
    """
    if not files.is_local(storage.url):
        return {}
    checkpoint = Checkpoint(storage.checkpoint(sink))
    checkpoint.fsync_start(batch)
    contents = checkpoint.files(batch)
    write_record(storage.intent(sink), {"batch": batch, "texts": texts(contents)})
    return contents


def read_intent(storage: Storage, sink: str) -> Intent:
    """The intent record; an empty one if there is none."""
    url = storage.intent(sink)
    fix = "`penstock checkpoint restore` removes it, if the batch in progress can be replayed without it"
    found = read_record(url, fix)
    if found is None:
        return Intent()
    try:
        return Intent(int(found["batch"]), {str(name): str(text) for name, text in found["texts"].items()})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RecordError(url, f"no batch in it ({error})", fix) from error


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
