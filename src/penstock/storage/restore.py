"""Restores a damaged checkpoint: from the journal, or from a backup; or starts a sink over."""

from __future__ import annotations

import json
import shutil
import uuid
from base64 import b64decode
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from penstock.errors import PenstockError
from penstock.storage import files
from penstock.storage.checkpoint import Checkpoint, damage, differs_from_crc
from penstock.storage.files import RecordError, digest, write_record
from penstock.storage.layout import BACKED_UP, Storage
from penstock.storage.ledger import Intent, Record, read_entry, read_intent, target_names
from penstock.storage.state import find_damage, stores
from penstock.storage.verify import (
    SinkStorage,
    find_missing_output,
    find_wrong_crc,
    log_entries,
    output_path,
    query_of,
    state_digests,
    was_compacted,
)

_MANIFEST = "manifest.json"
_KEPT_BY_SPARK = 100
_TRIES = 5


class BackupError(PenstockError):
    """A backup cannot be made or used."""


def timestamp() -> str:
    """The mark of what is moved aside now: two of them are never the same."""
    return f"{datetime.now(timezone.utc):%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:4]}"


def from_journal(sink: SinkStorage) -> list[str]:
    """Put right what the journal, the intent record and the other files allow; a line for each change."""
    return [
        *_restore_records(sink),
        *_restore_texts(sink),
        *_remove_wrong_crc(sink),
        *_remove_partial_offsets(sink),
        *_restore_commits(sink),
        *_restore_log(sink),
        *_restore_ledger(sink),
        *_restore_state(sink),
    ]


def _restore_records(sink: SinkStorage) -> Iterator[str]:
    """Damaged records are moved aside, if the other files tell what they did."""
    for number in sink.journal.numbers:
        if _is_damaged(sink.journal.read, number):
            yield _move_aside(sink, f"{sink.journal.url}/{number}.json", "the next start journals the batch again")
    if _is_damaged(sink.storage.read_owner, sink.name):
        yield _move_aside(sink, sink.storage.owner(sink.name), "the next start writes it again")
    if _is_damaged(read_intent, sink.storage, sink.name) and _can_replay(sink):
        yield _move_aside(sink, sink.storage.intent(sink.name), "Spark's own offsets are intact")


def remove_damaged_sources(storage: Storage) -> list[str]:
    """Remove damaged records of what the sources are; a line for each."""
    damaged = [name for name in storage.source_names() if _is_damaged(storage.read_source, name)]
    for name in damaged:
        files.remove(storage.source(name))
    return [f"{storage.source(name)} (removed: the ids are those that the source has now)" for name in damaged]


def _is_damaged(read: Any, *arguments: Any) -> bool:
    try:
        read(*arguments)
    except RecordError:
        return True
    return False


def _can_replay(sink: SinkStorage) -> bool:
    """Whether Spark's own offsets of the newest batch can be read."""
    offsets = sink.checkpoint.numbers("offsets")
    name = f"offsets/{offsets[-1]}" if offsets else ""
    return not name or not damage(name, sink.checkpoint.read(name))


def _move_aside(sink: SinkStorage, url: str, why: str) -> str:
    if not files.is_local(url):
        files.remove(url)
        return f"{url} (removed: {why})"
    place = Path(sink.storage.archive(f"damaged-{timestamp()}"), Path(url).name)
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(url, place)
    files.remove_crc(url)
    return f"{url} (moved to {place.parent}: {why})"


def _restore_texts(sink: SinkStorage) -> Iterator[str]:
    """The small files of the journaled batches, and of the batch in progress after them."""
    checkpoint = sink.checkpoint
    for name, text in _texts(sink):
        if checkpoint.read(name) != text.encode():
            files.write_atomic(f"{checkpoint.url}/{name}", text)
            files.remove_crc(f"{checkpoint.url}/{name}")
            yield name


def _texts(sink: SinkStorage) -> Iterator[tuple[str, str]]:
    records = sink.journal.readable()
    last = records[-1].batch if records else -1
    # What Spark has purged stays away.
    oldest = min(sink.checkpoint.numbers("offsets"), default=max(0, last + 1 - _KEPT_BY_SPARK))
    for record in records:
        if record.batch >= oldest:
            yield from ((name, text) for name, text in record.texts.items() if not _is_gone(sink.checkpoint, name))
    intent = _intent(sink)
    if intent.batch > last:
        yield from intent.texts.items()


def _is_gone(checkpoint: Checkpoint, name: str) -> bool:
    return checkpoint.read(name) is None and was_compacted(checkpoint, name)


def _intent(sink: SinkStorage) -> Intent:
    """The batch in progress of this checkpoint; an empty record if that is damaged or of another one."""
    try:
        found = read_intent(sink.storage, sink.name)
    except RecordError:
        return Intent()
    records = sink.journal.readable()
    query = sink.checkpoint.query or (records[-1].query if records else "")
    return found if not query or query_of(found) == query else Intent()


def _remove_wrong_crc(sink: SinkStorage) -> Iterator[str]:
    """Hadoop's checksum is what differs: the file itself is as the journal has it, or can be read."""
    for file in find_wrong_crc(sink):
        files.remove_crc(str(file))
        yield f"{file} (Hadoop's checksum removed)"


def _remove_partial_offsets(sink: SinkStorage) -> Iterator[str]:
    """The newest offsets if a power cut has left them empty or cut, and nothing of their batch was written."""
    offsets, commits = sink.checkpoint.numbers("offsets"), sink.checkpoint.numbers("commits")
    if not offsets or (commits and commits[-1] >= offsets[-1]) or offsets[-1] in sink.journal.numbers:
        return
    name = f"offsets/{offsets[-1]}"
    has_it = any(entry >= offsets[-1] for entry in _target_batches(sink))
    if damage(name, sink.checkpoint.read(name)) and not has_it:
        _remove(sink.checkpoint, name)
        yield f"{name} (removed: it was being written, and no target has its batch)"


def _target_batches(sink: SinkStorage) -> list[int]:
    """The newest batch of each target, as far as it can be read, and those of its output's log."""
    entries = []
    for target in target_names(sink.storage, sink.name):
        if not _is_damaged(read_entry, url := sink.storage.target(sink.name, target)):
            entries.append(read_entry(url).batch)
    intact = [number for number in sink.log_numbers() if not any(find_missing_output(sink.log_url, number))]
    return [*entries, *intact]


def _remove(checkpoint: Checkpoint, name: str) -> None:
    files.remove(f"{checkpoint.url}/{name}")
    files.remove_crc(f"{checkpoint.url}/{name}")


def _restore_commits(sink: SinkStorage) -> Iterator[str]:
    """Commits that a power cut has left empty or cut before their batch was journaled."""
    checkpoint, journaled = sink.checkpoint, set(sink.journal.numbers)
    for number in checkpoint.numbers("commits"):
        name = f"commits/{number}"
        if number in journaled or not damage(name, checkpoint.read(name)):
            continue
        next_offsets = f"offsets/{number + 1}"
        following = checkpoint.read(next_offsets)
        if following is not None and damage(next_offsets, following):
            # It stays as it is, and `verify` reports it: what its batch read cannot be known.
            continue
        if following is None:
            files.remove(f"{checkpoint.url}/{name}")
            says = "removed: its batch is replayed, and targets that have it skip it"
        else:
            # The next batch had started, so this one was done; its watermark is where the next one starts.
            watermark = json.loads(following.decode().split("\n")[1])["batchWatermarkMs"]
            files.write_atomic(f"{checkpoint.url}/{name}", f'v1\n{{"nextBatchWatermarkMs":{watermark}}}')
            says = "rewritten: the next batch had started"
        files.remove_crc(f"{checkpoint.url}/{name}")
        yield f"{name} ({says})"


def _restore_log(sink: SinkStorage) -> Iterator[str]:
    """The log of an output that Spark writes: from the journal; batches that a power cut has damaged are undone."""
    records = sink.journal.readable()
    last = records[-1].batch if records else -1
    url = sink.log_url
    compacted = [name for name in files.list_names(url) if name.endswith(".compact")] if url else []
    newest = max((int(name.split(".")[0]) for name in compacted), default=-1)
    for record in records:
        for name, text in record.log_texts.items():
            content = files.read(f"{url}/{name}")
            if content == text.encode() or (content is None and record.batch <= newest):
                continue
            files.write_atomic(f"{url}/{name}", text)
            files.remove_crc(f"{url}/{name}")
            yield f"{url}/{name}"
    later = [number for number in sink.log_numbers() if number > last]
    if any(says for number in later for says in find_missing_output(url, number)):
        yield from _undo(sink, last, later)


def _undo(sink: SinkStorage, last: int, later: list[int]) -> Iterator[str]:
    """Take back the batches after the last journaled one: this output is the only target, so they are read again."""
    _refuse_compaction(sink, last, later)
    place = Path(sink.log_url).parent / "_before" / timestamp()
    place.mkdir(parents=True)
    names = [name for number in later for name in (str(number), f"{number}.compact")]
    kept = {path for log in Path(sink.log_url).glob("[0-9]*") if log.name not in names for path in _output(log)}
    for name in names:
        _set_output_aside(Path(sink.log_url, name), place, kept)
    for number in sink.checkpoint.numbers("commits"):
        if number > last:
            _remove(sink.checkpoint, f"commits/{number}")
    for number in sink.checkpoint.numbers("offsets"):
        name = f"offsets/{number}"
        if number > last + 1 or (number > last and damage(name, sink.checkpoint.read(name))):
            _remove(sink.checkpoint, name)
    yield f"batches after {last} (undone: their output in {place} is not complete; they are read again)"


def _refuse_compaction(sink: SinkStorage, last: int, later: list[int]) -> None:
    """A compacted log holds older batches too, and Spark deletes their own entries after a while."""
    names = set(files.list_names(sink.log_url))
    if not any(f"{number}.compact" in names for number in later):
        return
    base = max((number for number in range(last + 1) if f"{number}.compact" in names), default=0)
    if not all({str(number), f"{number}.compact"} & names for number in range(base, last + 1)):
        says = f"{sink.log_url} is compacted: what batch {last} had written cannot be separated from later batches"
        raise BackupError(f"{says}; `penstock reset` moves the output aside and reads everything again")


def _output(log: Path) -> list[Path]:
    """The files that an entry of the log names; none if it is damaged."""
    try:
        return [path for path in map(output_path, log_entries(log.read_bytes())) if path is not None]
    except ValueError:
        return []


def _set_output_aside(log: Path, place: Path, kept: set[Path]) -> None:
    if not log.exists():
        return
    for path in _output(log):
        # A compacted entry names the files of older batches too.
        if path not in kept and path.exists():
            path.rename(place / path.name)
    log.rename(place / log.name)
    files.remove_crc(str(log))


def _restore_ledger(sink: SinkStorage) -> Iterator[str]:
    """Entries that are damaged or ahead of the intent record: as the journal has them; the batch is repeated."""
    records, query = sink.journal.readable(), sink.checkpoint.query
    receipts = records[-1].receipts if records else {}
    intent = _intent(sink)
    for target in target_names(sink.storage, sink.name):
        url = sink.storage.target(sink.name, target)
        if not _is_damaged(read_entry, url):
            entry = read_entry(url)
            if intent.batch < 0 or entry.query != query or entry.batch <= intent.batch:
                continue
        write_record(url, {"query": query, "batch": int(receipts.get(target, -1))})
        yield f"the ledger of target {target!r} (batch {receipts.get(target, -1)}; a later one is written again)"


def _restore_state(sink: SinkStorage) -> Iterator[str]:
    """Damaged state files are moved aside where an older snapshot and the changes since it are intact."""
    commits, checkpoint, known = sink.checkpoint.numbers("commits"), sink.checkpoint, state_digests(sink)
    if not commits or not files.is_local(checkpoint.url):
        return
    for name, text in (sink.journal.readable() or [Record(-1, "", "")])[-1].schemas.items():
        file = Path(checkpoint.url, name)
        if checkpoint.read(name) != b64decode(text) or differs_from_crc(file):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(b64decode(text))
            files.remove_crc(str(file))
            yield name
    every = [Path(checkpoint.url, name) for name in checkpoint.state_files()]
    damaged = set()
    for file, _ in find_damage(checkpoint, known, every):
        if known.get(str(file.relative_to(checkpoint.url))) == digest(file.read_bytes()):
            files.remove_crc(str(file))
            yield f"{file} (Hadoop's checksum removed)"
        else:
            damaged.add(file)
    for store in stores(checkpoint):
        for file in sorted(damaged & {*store.snapshots.values(), *store.changes.values()}):
            if store.chain(commits[-1] + 1, frozenset(damaged)) is not None:
                yield _move_aside(sink, str(file), "the state is loaded without it")


def backup(storage: Storage, place: Path, *, running: bool = False) -> int:
    """Copy checkpoints, state and records, with a checksum for each file; how many files that were.

    Of a pipeline that is `running`, everything up to its last journaled batch: those files no longer change.
    """
    if not files.is_local(storage.url):
        raise BackupError(f"{storage.url} is not a local folder; use the snapshots of that store")
    if place.exists() and any(place.iterdir()):
        raise BackupError(f"{place} is not empty; give another folder")
    for _ in range(_TRIES):
        try:
            sums = _copy(storage, place, _ends(storage) if running else None)
            break
        except FileNotFoundError:
            # Spark has purged a file meanwhile.
            shutil.rmtree(place, ignore_errors=True)
    else:
        raise BackupError(f"files of {storage.url} vanish while they are copied; stop the pipeline and try again")
    files.write_atomic(str(place / _MANIFEST), json.dumps(sums, indent=1))
    return len(sums)


def _ends(storage: Storage) -> dict[str, int]:
    """The last journaled batch of each sink."""
    sinks = {name: SinkStorage(name, storage) for name in storage.sink_names()}
    return {name: max(sink.journal.numbers, default=-1) for name, sink in sinks.items()}


def _copy(storage: Storage, place: Path, ends: dict[str, int] | None) -> dict[str, str]:
    sums = {}
    for name in _list_files(Path(storage.url)):
        if ends is not None and not _is_settled(name, ends):
            continue
        target = place / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(Path(storage.url, name), target)
        sums[name] = digest(target.read_bytes())
    for sink, end in (ends or {}).items():
        for target_name in target_names(storage, sink):
            copied = Storage(str(place)).target(sink, target_name)
            write_record(copied, {"query": Checkpoint(storage.checkpoint(sink)).query, "batch": end})
            sums[str(Path(copied).relative_to(place))] = digest(Path(copied).read_bytes())
    return sums


def _is_settled(name: str, ends: dict[str, int]) -> bool:
    """Whether a file belongs to a batch up to the last journaled one; ledger entries are rewritten."""
    part, sink, *inside = name.split("/")
    if part == "sources" or not inside:
        return True
    end = ends.get(sink, -1)
    if part == "ledger":
        return inside[0] == "batches" and int(Path(name).stem) <= end
    number = inside[-1].lstrip(".").split(".")[0]
    version = end + 1 if inside[0] == "state" else end
    return not number.isdigit() or int(number) <= version


def from_backup(sinks: list[SinkStorage], storage: Storage, place: Path, *, behind: bool) -> int:
    """Restore a whole backup; refused if it is damaged, or older than what was written since.

    With `behind` it may be older: its checkpoints get new ids, so targets take no batch for one that they have.
    """
    sums = _read_manifest(place)
    late = _behind(sinks, Storage(str(place)))
    if late and not behind:
        fix = "use a newer backup, or --behind: what was read since is then read and written again"
        raise BackupError(f"{'; '.join(late.values())}; {fix}")
    replaced = Path(storage.archive(f"restore-{timestamp()}"))
    for part in BACKED_UP:
        if Path(storage.url, part).exists():
            replaced.mkdir(parents=True, exist_ok=True)
            Path(storage.url, part).rename(replaced / part)
    for name in sums:
        target = Path(storage.url, name)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(place / name, target)
    for sink in sinks:
        if sink.name in late:
            begin_generation(sink)
    return len(sums)


def begin_generation(sink: SinkStorage) -> None:
    """Continue from the same offsets and state as another checkpoint: its batches are new to every target."""
    sink.checkpoint.set_query(str(uuid.uuid4()))
    if sink.log_url:
        last = max(sink.checkpoint.numbers("commits"), default=-1)
        list(_undo(sink, last, [number for number in sink.log_numbers() if number > last]))
    _delete(sink.storage.ledger(sink.name))


def _read_manifest(place: Path) -> dict[str, str]:
    try:
        sums: dict[str, str] = json.loads((place / _MANIFEST).read_text(encoding="utf-8"))
        if not isinstance(sums, dict):
            raise ValueError("its manifest is not a JSON object")
    except (OSError, ValueError) as error:
        raise BackupError(f"{place} is not a backup: {error}; give a folder that `checkpoint backup` made") from error
    for name, expected in sums.items():
        file = place / name
        if not file.exists() or digest(file.read_bytes()) != expected:
            raise BackupError(f"the backup's {file} is missing or damaged; use another backup")
    return sums


def _behind(sinks: list[SinkStorage], kept: Storage) -> dict[str, str]:
    """The sinks whose targets have batches that the backup does not have, and a sentence about each."""
    found = {}
    for sink in sinks:
        copy = SinkStorage(sink.name, kept)
        last = max([*copy.checkpoint.numbers("commits"), *_target_batches(copy)], default=-1)
        written = max([*sink.journal.numbers, *_target_batches(sink)], default=-1)
        if written > last:
            says = f"batch {last}" if last >= 0 else "no batch"
            found[sink.name] = f"the backup of {sink.name!r} ends with {says}, and {written} was written"
    return found


def _list_files(storage: Path) -> Iterator[str]:
    for part in BACKED_UP:
        for file in sorted((storage / part).rglob("*")):
            if file.is_file():
                yield str(file.relative_to(storage))


def reset_sink(sink: SinkStorage, mark: str) -> str:
    """Move a sink's checkpoint and ledger aside, and output that Spark has a log of; returns where they are."""
    place = Storage(sink.storage.archive(mark))
    _move(sink.storage.checkpoint(sink.name), place.checkpoint(sink.name))
    _move(sink.storage.owner(sink.name), place.owner(sink.name))
    _move(sink.storage.ledger(sink.name), place.ledger(sink.name))
    if sink.log_numbers():
        output = sink.log_url.rpartition("/")[0]
        _move(output, f"{output}.before-{mark}")
    return place.url


def _delete(url: str) -> None:
    if files.is_local(url):
        shutil.rmtree(url, ignore_errors=True)
        return
    import fsspec

    system, path = fsspec.url_to_fs(url)
    if system.exists(path):
        system.rm(path, recursive=True)


def _move(old: str, new: str) -> None:
    if files.is_local(old):
        if Path(old).exists():
            Path(new).parent.mkdir(parents=True, exist_ok=True)
            Path(old).rename(new)
        return
    import fsspec

    system, path = fsspec.url_to_fs(old)
    if system.exists(path):
        system.mv(path, fsspec.url_to_fs(new)[1], recursive=True)
