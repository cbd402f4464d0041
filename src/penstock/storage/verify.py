"""Compares a checkpoint with journal, ledger and target: every difference that Spark itself would not notice."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from penstock.storage import files
from penstock.storage.checkpoint import Checkpoint, damage, differs_from_crc
from penstock.storage.files import RecordError, digest
from penstock.storage.layout import Storage
from penstock.storage.ledger import Entry, Intent, Journal, Record, read_entries, read_entry, read_intent, target_names
from penstock.storage.state import changes_to_load, find_damage, stores

RESTORE = "`penstock checkpoint restore` restores it"
RESET = "restore the checkpoint from a backup, or start over with `penstock reset`"


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

    def intent(self) -> Intent:
        """The batch in progress; an empty record if that is of another checkpoint."""
        found = read_intent(self.storage, self.name)
        return found if query_of(found) == self.checkpoint.query else Intent()

    def log_numbers(self) -> list[int]:
        """The batches in the log that Spark keeps with the target's data."""
        names = (name.removesuffix(".compact") for name in files.list_names(self.log_url)) if self.log_url else ()
        return sorted({int(name) for name in names if name.isdigit()})


def query_of(intent: Intent) -> str:
    """The checkpoint that an intent record belongs to."""
    try:
        return str(json.loads(intent.texts.get("metadata", "{}")).get("id", ""))
    except ValueError:
        return ""


def find_problems(sink: SinkStorage, *, state: bool = False) -> list[Problem]:
    """Every inconsistency, before the first row; changes nothing. `state` reads every state file as well."""
    damaged = list(_find_damaged_records(sink))
    if damaged:
        return damaged
    last = sink.journal.last()
    if not sink.checkpoint.numbers("offsets"):
        return list(_find_missing_checkpoint(sink, last))
    return [
        *_find_damage(sink),
        *_find_rollback(sink, last),
        *_find_contradictions(sink, last),
        *_find_changed_files(sink),
        *_find_changed_log(sink, last),
        *_find_changed_state(sink, last, everything=state),
    ]


def find_source_problems(storage: Storage) -> list[Problem]:
    """Damaged records of what the sources are."""
    found = []
    for name in storage.source_names():
        try:
            storage.read_source(name)
        except RecordError as error:
            found.append(Problem(error.says, error.fix))
    return found


def _find_damaged_records(sink: SinkStorage) -> Iterator[Problem]:
    storage, name = sink.storage, sink.name
    reads: list[tuple[Any, ...]] = [
        (storage.read_owner, name),
        *((read_entry, storage.target(name, target)) for target in target_names(storage, name)),
        (read_intent, storage, name),
        *((sink.journal.read, number) for number in sink.journal.numbers),
    ]
    for read, *arguments in reads:
        try:
            read(*arguments)
        except RecordError as error:
            yield Problem(error.says, error.fix)


def _find_missing_checkpoint(sink: SinkStorage, last: Record | None) -> Iterator[Problem]:
    if last is not None:
        says = f"no checkpoint at {sink.checkpoint.url}, but batch {last.batch} was committed at {last.at}"
        yield Problem(f"{says}: a new one over old output loses rows or doubles them", RESET)
    elif any(entry.batch >= 0 for entry in sink.targets().values()):
        says = f"no checkpoint at {sink.checkpoint.url}, but its targets have batches of an earlier one"
        yield Problem(says, RESET)
    known = sink.log_numbers()
    if known:
        says = f"the output has batches up to {known[-1]} in {sink.log_url}, and their checkpoint is missing"
        fix = f"restore the checkpoint, or write to another path: Spark would skip the first {known[-1] + 1} batches"
        yield Problem(says, fix)


def _find_damage(sink: SinkStorage) -> Iterator[Problem]:
    checkpoint = sink.checkpoint
    if not checkpoint.query:
        yield Problem(f"{checkpoint.url}/metadata is missing or damaged", RESTORE)
    offsets, commits = checkpoint.numbers("offsets"), checkpoint.numbers("commits")
    for log, numbers in (("offsets", offsets), ("commits", commits)):
        for number in numbers:
            wrong = damage(f"{log}/{number}", checkpoint.read(f"{log}/{number}"))
            if wrong:
                yield Problem(f"{checkpoint.url}/{log}/{number} {wrong}", RESTORE)
    missing = sorted(set(range(offsets[0], offsets[-1] + 1)) - set(offsets))
    missing += [number for number in commits if number > offsets[-1]]
    for number in missing:
        yield Problem(f"{checkpoint.url}/offsets/{number} is missing", RESTORE)
    for file in find_wrong_crc(sink):
        yield Problem(f"{file} differs from Hadoop's checksum of it", RESTORE)


def find_wrong_crc(sink: SinkStorage) -> list[Path]:
    """The small files of a local checkpoint, and of the log with its output, that Spark would refuse to read."""
    places = [f"{sink.checkpoint.url}/{folder}" for folder in ("offsets", "commits", "sources")]
    places += [sink.log_url] if sink.log_url else []
    folders = [Path(url) for url in places if files.is_local(url)]
    found = [file for folder in folders for file in sorted(folder.rglob("[0-9]*")) if file.is_file()]
    metadata = Path(sink.checkpoint.url, "metadata")
    return [file for file in [*([metadata] if metadata.is_file() else []), *found] if differs_from_crc(file)]


def _find_rollback(sink: SinkStorage, last: Record | None) -> Iterator[Problem]:
    """A checkpoint that was rolled back, or belongs to another query: its next batches have numbers that are taken."""
    end, query = sink.checkpoint.numbers("offsets")[-1], sink.checkpoint.query
    taken: dict[str, int] = {}
    if last is not None and query and last.query != query:
        says = f"the checkpoint {sink.checkpoint.url} is of query {query}, the journal is of {last.query}"
        yield Problem(f"{says}: a new checkpoint over old output", RESET)
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
            yield Problem(f"{says}: rolled back, it would lose the rows of the batches between", RESTORE)


def _find_contradictions(sink: SinkStorage, last: Record | None) -> Iterator[Problem]:
    """No target is ahead of the intent record, and a batch in progress reads what it started with."""
    intent = sink.intent()
    if intent.batch < 0:
        return
    for target, entry in sink.targets().items():
        if entry.query == sink.checkpoint.query and entry.batch > intent.batch:
            says = f"the ledger has batch {entry.batch} of target {target!r}, and the last that began is {intent.batch}"
            yield Problem(says, RESTORE)
    if last is not None and intent.batch <= last.batch:
        return
    for name, text in intent.texts.items():
        content = sink.checkpoint.read(name)
        if content is None or content.decode("utf-8", "replace") != text:
            says = "is missing" if content is None else "has changed"
            yield Problem(f"{sink.checkpoint.url}/{name} {says} since batch {intent.batch} began", RESTORE)


def _find_changed_files(sink: SinkStorage) -> Iterator[Problem]:
    checkpoint = sink.checkpoint
    offsets = checkpoint.numbers("offsets")
    for number in sink.journal.numbers:
        if not offsets[0] <= number <= offsets[-1]:
            continue
        record = sink.journal.read(number)
        for name, expected in record.files.items():
            content = checkpoint.read(name)
            fix = RESTORE if name in record.texts else RESET
            if content is None:
                if not was_compacted(checkpoint, name):
                    yield Problem(f"{checkpoint.url}/{name} is missing, and batch {number} was committed", fix)
            elif digest(content) != expected:
                yield Problem(f"{checkpoint.url}/{name} has changed since batch {number} was committed", fix)


def was_compacted(checkpoint: Checkpoint, name: str) -> bool:
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


def _find_changed_log(sink: SinkStorage, last: Record | None) -> Iterator[Problem]:
    """The log that says which files of the output count: without it, readers find too much or nothing."""
    url = sink.log_url or (last.log_url if last else "")
    if not url:
        return
    there = set(files.list_names(url))
    compacted = max((int(name.split(".")[0]) for name in there if name.endswith(".compact")), default=-1)
    for number in sink.journal.numbers:
        record = sink.journal.read(number)
        for name, expected in record.log.items():
            content = files.read(f"{url}/{name}")
            fix = RESTORE if name in record.log_texts else RESET
            if content is None and int(name.split(".")[0]) > compacted:
                yield Problem(f"{url}/{name} is missing, and batch {number} wrote it", fix)
            elif content is not None and digest(content) != expected:
                yield Problem(f"{url}/{name} has changed since batch {number} wrote it", fix)
    journaled = last.batch if last else -1
    for number in (number for number in sink.log_numbers() if number >= journaled):
        for says in find_missing_output(url, number):
            yield Problem(says, RESTORE if number > journaled else RESET)


def log_entries(content: bytes) -> list[dict[str, Any]]:
    """The output files that an entry of Spark's log names; a ValueError if it is damaged."""
    version, *lines = content.decode("utf-8").split("\n")
    if not version.startswith("v"):
        raise ValueError("does not begin with a version")
    return [dict(json.loads(line)) for line in lines if line]


def output_path(entry: dict[str, Any]) -> Path | None:
    """The local file that an entry of the log names; None if it is elsewhere."""
    parts = urlsplit(str(entry.get("path", "")))
    return Path(unquote(parts.path)) if parts.scheme in ("", "file") else None


def find_missing_output(url: str, number: int) -> Iterator[str]:
    """What of a batch's output is not as Spark's log has it: a power cut leaves files of 0 bytes."""
    for name in (f"{number}.compact", str(number)):
        content = files.read(f"{url}/{name}")
        if content is None:
            continue
        try:
            entries = log_entries(content)
        except ValueError as error:
            yield f"{url}/{name} is damaged: {error}"
            return
        for entry in entries:
            path = output_path(entry)
            if path is not None and (not path.exists() or path.stat().st_size != entry.get("size")):
                found = path.stat().st_size if path.exists() else "no"
                yield f"{path} has {found} bytes, and {url}/{name} says {entry.get('size')}"
        return


def _find_changed_state(sink: SinkStorage, last: Record | None, *, everything: bool) -> Iterator[Problem]:
    """The changes that Spark would load the state from; with `everything` snapshots and older files as well."""
    if last is None or not files.is_local(sink.checkpoint.url):
        return
    place = Path(sink.checkpoint.url)
    chosen = {place / name for name in last.state} | set(changes_to_load(sink.checkpoint, last.batch + 1))
    if everything:
        chosen |= {place / name for name in sink.checkpoint.state_files()}
    version = sink.checkpoint.numbers("commits")[-1] + 1 if sink.checkpoint.numbers("commits") else 0
    for store in stores(sink.checkpoint):
        if store.chain(version) is None:
            yield Problem(f"the state in {store.folder} is not complete: a file up to {version} is missing", RESET)
    for name, text in last.schemas.items():
        content = sink.checkpoint.read(name)
        if content != b64decode(text) or differs_from_crc(place / name):
            says = "is missing" if content is None else "has changed since it was written"
            yield Problem(f"{place / name} {says}", RESTORE)
    for file, says in find_damage(sink.checkpoint, state_digests(sink), sorted(chosen)):
        yield Problem(f"{file} {says}", f"{RESTORE} if the state can be loaded without it; if not, {RESET}")


def state_digests(sink: SinkStorage) -> dict[str, str]:
    """The journaled checksums of the state files."""
    return {name: expected for record in sink.journal.readable() for name, expected in record.state.items()}
