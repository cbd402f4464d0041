"""The ledger: which batch each target of a sink has, written after the target's own write, read when a query starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

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
