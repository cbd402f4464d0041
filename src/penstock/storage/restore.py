"""Restores a damaged checkpoint: from the journal, or from a backup."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

from penstock.errors import PenstockError
from penstock.storage import files
from penstock.storage.checkpoint import damage, digest
from penstock.storage.layout import BACKED_UP, Storage
from penstock.storage.ledger import read_intent
from penstock.storage.verify import SinkStorage

_MANIFEST = "manifest.json"


class BackupError(PenstockError):
    """A backup cannot be made or used."""


def from_journal(sink: SinkStorage) -> list[str]:
    """Rewrite every small file of the checkpoint that differs from the journal; the names of those."""
    done = []
    checkpoint = sink.checkpoint
    for name, text in _texts(sink):
        if checkpoint.read(name) != text.encode():
            files.write_atomic(f"{checkpoint.url}/{name}", text)
            files.remove_crc(f"{checkpoint.url}/{name}")
            done.append(name)
    unfinished = _find_unfinished(sink)
    if unfinished:
        files.remove(f"{checkpoint.url}/{unfinished}")
        files.remove_crc(f"{checkpoint.url}/{unfinished}")
        done.append(f"{unfinished} (removed: it was being written, and no target has its batch)")
    return [*done, *_commits(sink)]


def _texts(sink: SinkStorage) -> Iterator[tuple[str, str]]:
    """The small files of the journaled batches, and of the batch in progress after them."""
    for number in sink.journal.numbers:
        yield from sink.journal.read(number).texts.items()
    number, texts = read_intent(sink.storage, sink.name)
    if number > max(sink.journal.numbers, default=-1):
        yield from texts.items()


def _commits(sink: SinkStorage) -> Iterator[str]:
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


def _find_unfinished(sink: SinkStorage) -> str:
    """The newest offsets if a power cut has left them empty or cut, and nothing of their batch was written."""
    offsets, commits = sink.checkpoint.numbers("offsets"), sink.checkpoint.numbers("commits")
    if not offsets or (commits and commits[-1] >= offsets[-1]) or offsets[-1] in sink.journal.numbers:
        return ""
    name = f"offsets/{offsets[-1]}"
    written = [entry.batch for entry in sink.targets().values()] + sink.log_numbers()
    has_it = any(batch >= offsets[-1] for batch in written)
    return name if damage(name, sink.checkpoint.read(name)) and not has_it else ""


def backup(storage: Storage, place: Path) -> int:
    """Copy checkpoints and records, with a checksum for each file; how many files that were."""
    if not files.is_local(storage.url):
        raise BackupError(f"{storage.url} is not a local folder; use the snapshots of that store")
    if place.exists() and any(place.iterdir()):
        raise BackupError(f"{place} is not empty; give another folder")
    sums = {}
    for name in _list_files(Path(storage.url)):
        target = place / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(Path(storage.url, name), target)
        sums[name] = digest(target.read_bytes())
    files.write_atomic(str(place / _MANIFEST), json.dumps(sums, indent=1))
    return len(sums)


def from_backup(sinks: list[SinkStorage], storage: Storage, place: Path, *, behind: bool) -> int:
    """Restore a whole backup; refused if it is damaged, or older than what was written since."""
    try:
        sums: dict[str, str] = json.loads((place / _MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BackupError(f"{place} is not a backup: {error}; give a folder that `checkpoint backup` made") from error
    for name, expected in sums.items():
        file = place / name
        if not file.exists() or digest(file.read_bytes()) != expected:
            raise BackupError(f"the backup's {file} is missing or damaged; use another backup")
    if not behind:
        _refuse_behind(sinks, place)
    replaced = Path(storage.archive(f"restore-{place.name}"))
    for part in BACKED_UP:
        if Path(storage.url, part).exists():
            replaced.mkdir(parents=True, exist_ok=True)
            Path(storage.url, part).rename(replaced / part)
    for name in sums:
        target = Path(storage.url, name)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(place / name, target)
    return len(sums)


def _refuse_behind(sinks: list[SinkStorage], place: Path) -> None:
    for sink in sinks:
        known = sink.journal.numbers
        kept = SinkStorage(sink.name, Storage(str(place))).checkpoint.numbers("commits")
        if known and (not kept or kept[-1] < known[-1]):
            last = kept[-1] if kept else "none"
            says = f"the backup of {sink.name!r} ends with batch {last}, and {known[-1]} was written"
            fix = "a newer backup, or --behind: batches since are then written again, to file sinks not at all"
            raise BackupError(f"{says}; {fix}")


def _list_files(storage: Path) -> Iterator[str]:
    for part in BACKED_UP:
        for file in sorted((storage / part).rglob("*")):
            if file.is_file():
                yield str(file.relative_to(storage))


def reset_sink(sink: SinkStorage, mark: str) -> str:
    """Move a sink's checkpoint and ledger aside; returns where they are."""
    place = Storage(sink.storage.archive(mark))
    _move(sink.storage.checkpoint(sink.name), place.checkpoint(sink.name))
    _move(sink.storage.ledger(sink.name), place.ledger(sink.name))
    return place.url


def _move(old: str, new: str) -> None:
    if not files.list_names(old):
        return
    if files.is_local(old):
        Path(new).parent.mkdir(parents=True, exist_ok=True)
        Path(old).rename(new)
        return
    import fsspec

    system, path = fsspec.url_to_fs(old)
    system.mv(path, fsspec.url_to_fs(new)[1], recursive=True)
