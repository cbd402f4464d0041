"""Compares a checkpoint with journal, ledger and target: every difference that Spark itself would not notice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from penstock.storage import files
from penstock.storage.checkpoint import Checkpoint, damage, digest
from penstock.storage.journal import Journal, Record, RecordError
from penstock.storage.layout import Storage, StorageError
from penstock.storage.ledger import Entry, read_entries

_RESTORE = "`penstock checkpoint restore` restores it"
_RESET = "restore the checkpoint, or reset it with --new-checkpoint"


@dataclass(frozen=True)
class Problem:
    """An inconsistency, and what to do."""

    says: str
    fix: str

    def __str__(self) -> str:
        return f"{self.says}; {self.fix}"


@dataclass(frozen=True)
class SinkStorage:
    """One sink's checkpoint, journal, ledger and, if Spark writes its target with a log, that log."""

    name: str
    storage: Storage
    log_url: str = ""

    @property
    def checkpoint(self) -> Checkpoint:
        """Spark's own."""
        return Checkpoint(self.storage.checkpoint(self.name))

    @property
    def journal(self) -> Journal:
        """The committed batches."""
        return Journal(self.storage.journal(self.name))

    def targets(self) -> dict[str, Entry]:
        """The last batch of each target."""
        return read_entries(self.storage, self.name)

    def log_numbers(self) -> list[int]:
        """The batches in the log that Spark keeps with the target's data."""
        names = (name.removesuffix(".compact") for name in files.list_names(self.log_url)) if self.log_url else ()
        return sorted({int(name) for name in names if name.isdigit()})


def find_problems(sink: SinkStorage) -> list[Problem]:
    """Every inconsistency, before the first row; changes nothing."""
    try:
        last = sink.journal.last()
        if not sink.checkpoint.numbers("offsets"):
            return list(_find_missing_checkpoint(sink, last))
        return [*_find_damage(sink), *_find_rollback(sink, last), *_find_changed_files(sink), *_find_changed_log(sink)]
    except (RecordError, StorageError) as error:
        says, _, fix = str(error).rpartition("; ")
        return [Problem(says, fix)]


def _find_missing_checkpoint(sink: SinkStorage, last: Record | None) -> Iterator[Problem]:
    if last is not None:
        says = f"no checkpoint at {sink.checkpoint.url}, but batch {last.batch} was committed at {last.at}"
        yield Problem(f"{says}: a new one over old output loses rows or doubles them", _RESET)
    elif any(entry.batch >= 0 for entry in sink.targets().values()):
        says = f"no checkpoint at {sink.checkpoint.url}, but its targets have batches of an earlier one"
        yield Problem(says, _RESET)
    known = sink.log_numbers()
    if known:
        says = f"the output has batches up to {known[-1]} in {sink.log_url}, and their checkpoint is missing"
        fix = f"restore the checkpoint, or write to another path: Spark would skip the first {known[-1] + 1} batches"
        yield Problem(says, fix)


def _find_damage(sink: SinkStorage) -> Iterator[Problem]:
    checkpoint = sink.checkpoint
    if not checkpoint.query:
        yield Problem(f"{checkpoint.url}/metadata is missing or damaged", _RESTORE)
    offsets, commits = checkpoint.numbers("offsets"), checkpoint.numbers("commits")
    for log, numbers in (("offsets", offsets), ("commits", commits)):
        for number in numbers:
            wrong = damage(f"{log}/{number}", checkpoint.read(f"{log}/{number}"))
            if wrong:
                yield Problem(f"{checkpoint.url}/{log}/{number} {wrong}", _RESTORE)
    missing = sorted(set(range(offsets[0], offsets[-1] + 1)) - set(offsets))
    missing += [number for number in commits if number > offsets[-1]]
    for number in missing:
        yield Problem(f"{checkpoint.url}/offsets/{number} is missing", _RESTORE)


def _find_rollback(sink: SinkStorage, last: Record | None) -> Iterator[Problem]:
    """A checkpoint that was rolled back, or belongs to another query: its next batches have numbers that are taken."""
    end, query = sink.checkpoint.numbers("offsets")[-1], sink.checkpoint.query
    taken: dict[str, int] = {}
    if last is not None and query and last.query != query:
        says = f"the checkpoint {sink.checkpoint.url} is of query {query}, the journal is of {last.query}"
        yield Problem(f"{says}: a new checkpoint over old output", _RESET)
        return
    if last is not None:
        taken["in the journal"] = last.batch
    for target, entry in sink.targets().items():
        if entry.query == query:
            taken[f"in target {target!r}"] = entry.batch
    if sink.log_numbers():
        taken[f"in {sink.log_url}"] = sink.log_numbers()[-1]
    for where, batch in taken.items():
        if batch > end:
            says = f"the checkpoint {sink.checkpoint.url} ends with batch {end}, but batch {batch} is {where}"
            yield Problem(f"{says}: rolled back, it would lose the rows of the batches between", _RESTORE)


def _find_changed_files(sink: SinkStorage) -> Iterator[Problem]:
    checkpoint = sink.checkpoint
    oldest = checkpoint.numbers("offsets")[0]
    for number in sink.journal.numbers:
        if number < oldest or number > checkpoint.numbers("offsets")[-1]:
            continue
        for name, expected in sink.journal.read(number).files.items():
            content = checkpoint.read(name)
            if content is None:
                if not _was_compacted(checkpoint, name):
                    yield Problem(f"{checkpoint.url}/{name} is missing, and batch {number} was committed", _RESTORE)
            elif digest(content) != expected:
                says = f"{checkpoint.url}/{name} has changed since batch {number} was committed"
                yield Problem(says, _RESTORE)


def _was_compacted(checkpoint: Checkpoint, name: str) -> bool:
    """A file source folds its old logs into `N.compact` and removes them."""
    folder, _, file = name.rpartition("/")
    number = int(file.removesuffix(".compact")) if file.removesuffix(".compact").isdigit() else -1
    if folder == "commits" and number >= 0:
        commits = checkpoint.numbers("commits")
        return bool(commits) and number < commits[0]
    if not folder.startswith("sources/"):
        return False
    later = (
        each.removesuffix(".compact") for each in files.list_names(f"{checkpoint.url}/{folder}") if "." in each[1:]
    )
    return any(each.isdigit() and int(each) >= number for each in later)


def _find_changed_log(sink: SinkStorage) -> Iterator[Problem]:
    """The log that says which files of the output count: without it, readers find too much or nothing."""
    last = sink.journal.last()
    url = sink.log_url or (last.log_url if last else "")
    if not url:
        return
    there = set(files.list_names(url))
    compacted = max((int(name.split(".")[0]) for name in there if name.endswith(".compact")), default=-1)
    for number in sink.journal.numbers:
        for name, expected in sink.journal.read(number).log.items():
            content = files.read(f"{url}/{name}")
            if content is None and int(name.split(".")[0]) > compacted:
                yield Problem(f"{url}/{name} is missing, and batch {number} wrote it", "restore the output's log")
            elif content is not None and digest(content) != expected:
                yield Problem(f"{url}/{name} has changed since batch {number} wrote it", "restore the output's log")
