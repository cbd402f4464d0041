"""Which batch each target of a sink has: written after the target's own write, read when a query starts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.storage import files
from penstock.storage.checkpoint import Checkpoint, texts
from penstock.storage.journal import RecordError
from penstock.storage.layout import Storage, StorageError


@dataclass
class Ledger:
    """The last batch of each target of one sink, one small file per target beside the checkpoint."""

    storage: Storage
    sink: str
    _known: dict[str, tuple[str, int]] = field(default_factory=dict)

    def has(self, target: str, query: str, batch: int) -> bool:
        """Whether the target has this batch of this checkpoint; a batch is never written before an earlier one."""
        if target not in self._known:
            self._known[target] = self._read(target)
        known_query, known_batch = self._known[target]
        return known_query == query and batch <= known_batch

    def begin(self, batch: int) -> None:
        """What the batch is of is kept: on the disk when this returns, and before any target gets a row."""
        write_intent(self._folder, Checkpoint(self.storage.checkpoint(self.sink)), batch)

    def write(self, target: str, query: str, batch: int) -> None:
        """The target has this batch: on the disk when this returns."""
        files.write_atomic(self._url(target), json.dumps({"query": query, "batch": batch}))
        self._known[target] = (query, batch)

    def _read(self, target: str) -> tuple[str, int]:
        import fsspec

        url = self._url(target)
        try:
            with fsspec.open(url, "r") as file:
                found = json.load(file)
            return str(found["query"]), int(found["batch"])
        except (FileNotFoundError, NotADirectoryError):
            return "", -1
        except (OSError, ValueError, KeyError, TypeError) as error:
            fix = "restore it, or delete it: the batch is then written again, which every target but 'foreach' allows"
            raise StorageError(f"cannot read the ledger {url}: {error}; {fix}") from error

    def _url(self, target: str) -> str:
        return f"{self._folder}/{target}.json"

    @property
    def _folder(self) -> str:
        return f"{self.storage.url}/ledger/{self.sink}"


def write_intent(url: str, checkpoint: Checkpoint, batch: int) -> None:
    """Copy the small files that a batch begins with: on the disk when this returns. Object stores lose none."""
    if files.is_local(url):
        files.write_atomic(f"{url}/begun", json.dumps({"batch": batch, "texts": texts(checkpoint.files(batch))}))


def read_intent(url: str) -> tuple[int, Mapping[str, str]]:
    """The batch that was begun last and its files; batch -1 if none was."""
    content = files.read(f"{url}/begun")
    if content is None:
        return -1, {}
    try:
        found = json.loads(content)
        return int(found["batch"]), found["texts"]
    except (ValueError, KeyError, TypeError) as error:
        fix = "restore it from a backup, or delete it: what the last batch was of is then not known"
        raise RecordError(f"{url}/begun is damaged: {error}; {fix}") from error
