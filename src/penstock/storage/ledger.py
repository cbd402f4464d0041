"""The ledger: which batch each target of a sink has, written after the target's own write, read when a query starts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.storage import files
from penstock.storage.checkpoint import Checkpoint, texts
from penstock.storage.journal import RecordError
from penstock.storage.layout import Storage, StorageError


@dataclass(frozen=True)
class Entry:
    """The last batch of one target, and the checkpoint that it belongs to."""

    query: str = ""
    batch: int = -1


@dataclass
class Ledger:
    """The last batch of each target of one sink, one small file per target."""

    storage: Storage
    sink: str
    batch_files: tuple[int, Mapping[str, bytes]] = (-1, {})
    """The batch in progress and its files of the checkpoint, as the intent record has them."""
    _known: dict[str, Entry] = field(default_factory=dict)

    def has(self, target: str, query: str, batch: int) -> bool:
        """Whether the target has this batch of this checkpoint; a batch is never written before an earlier one."""
        if target not in self._known:
            self._known[target] = read_entry(self.storage.target(self.sink, target))
        known = self._known[target]
        return known.query == query and batch <= known.batch

    def begin(self, batch: int) -> None:
        """Write the intent record of a batch; call it before any target gets a row."""
        self.batch_files = (batch, write_intent(self.storage, self.sink, batch))

    def write(self, target: str, query: str, batch: int) -> None:
        """The target has this batch; on the disk when this returns."""
        files.write_atomic(self.storage.target(self.sink, target), json.dumps({"query": query, "batch": batch}))
        self._known[target] = Entry(query, batch)


def read_entry(url: str) -> Entry:
    """One entry of a ledger; an empty one if there is none yet."""
    try:
        content = files.read(url)
        if content is None:
            return Entry()
        found = json.loads(content)
        return Entry(str(found["query"]), int(found["batch"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        fix = "restore it, or delete it: the batch is then written again, which every target but 'foreach' allows"
        raise StorageError(f"cannot read the ledger {url}: {error}; {fix}") from error


def read_entries(storage: Storage, sink: str) -> dict[str, Entry]:
    """The entry of each target of a sink."""
    names = files.list_names(storage.ledger(sink))
    targets = [name.removesuffix(".json") for name in names if name.endswith(".json") and not name.startswith(".")]
    return {target: read_entry(storage.target(sink, target)) for target in targets}


def write_intent(storage: Storage, sink: str, batch: int) -> dict[str, bytes]:
    """Intent record: the offsets of the batch in progress, fsynced before any target is written; returns those files.

    Spark does not fsync its offset log. Object stores lose nothing in a power cut, so they need none.
    """
    if not files.is_local(storage.url):
        return {}
    contents = Checkpoint(storage.checkpoint(sink)).files(batch)
    files.write_atomic(storage.intent(sink), json.dumps({"batch": batch, "texts": texts(contents)}))
    return contents


def read_intent(storage: Storage, sink: str) -> tuple[int, Mapping[str, str]]:
    """The batch that was last in progress, and the small files of its checkpoint; batch -1 if there was none."""
    url = storage.intent(sink)
    content = files.read(url)
    if content is None:
        return -1, {}
    try:
        found = json.loads(content)
        return int(found["batch"]), found["texts"]
    except (ValueError, KeyError, TypeError) as error:
        fix = "restore it from a backup, or delete it: what the last batch read is then not known"
        raise RecordError(f"{url} is damaged: {error}; {fix}") from error
