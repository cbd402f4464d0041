"""Appends every committed batch to the journal, from Spark's progress report."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from penstock.model import Pipeline, Sink
from penstock.storage import files
from penstock.storage.checkpoint import Checkpoint, digest, texts
from penstock.storage.journal import Record
from penstock.storage.layout import Storage
from penstock.storage.verify import SinkStorage
from penstock.watch.snapshot import snapshot


def sink_storages(pipeline: Pipeline, storage: Storage) -> dict[str, SinkStorage]:
    """The storage of each sink that has a checkpoint with batches."""
    kept = [sink for sink in pipeline.sinks if sink.native is None or sink.native.has_checkpoint]
    return {
        sink.name: SinkStorage(sink.name, storage, _log_url(sink)) for sink in kept if not sink.trigger.is_continuous
    }


def append_batch(known: SinkStorage, progress: Mapping[str, Any], read: Mapping[str, bytes] | None = None) -> None:
    """Journal the batch of a progress report, and fsync Spark's own files of it; `read` are not read again."""
    seen = snapshot(progress)
    sources = tuple(
        {
            "what": each.get("description", ""),
            "start": parse_offset(each, "startOffset"),
            "end": parse_offset(each, "endOffset"),
        }
        for each in progress.get("sources", ())
    )
    known.journal.write(
        _record(known, seen.batch, sources, seen.rows_in, seen.rows_out, dict(seen.bad_records), read=read)
    )


def journal_missing_commits(known: SinkStorage) -> int:
    """Journal what was committed just before a crash; how many batches that were."""
    newest = max(known.journal.numbers, default=-1)
    missing = [number for number in known.checkpoint.numbers("commits") if number > newest]
    for number in missing:
        offsets = known.checkpoint.offsets(number)
        sources = tuple({"what": "", "start": None, "end": each} for each in offsets)
        known.journal.write(_record(known, number, sources, 0, None, {}, adopted=True))
    return len(missing)


def _record(
    known: SinkStorage,
    batch: int,
    sources: tuple[Mapping[str, Any], ...],
    rows_in: int,
    rows_out: int | None,
    bad: dict[str, int],
    *,
    adopted: bool = False,
    read: Mapping[str, bytes] | None = None,
) -> Record:
    checkpoint = known.checkpoint
    contents = checkpoint.files(batch, read)
    _fsync(checkpoint, contents)
    log = {
        name: content
        for name in (str(batch), f"{batch}.compact")
        if known.log_url and (content := files.read(f"{known.log_url}/{name}")) is not None
    }
    return Record(
        batch=batch,
        query=checkpoint.query,
        at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        sources=sources,
        rows_in=rows_in,
        rows_out=rows_out,
        bad=bad,
        receipts={name: entry.batch for name, entry in known.targets().items()},
        files={name: digest(content) for name, content in contents.items()},
        texts=texts(contents),
        log_url=known.log_url,
        log={name: digest(content) for name, content in log.items()},
        adopted=adopted,
    )


def _fsync(checkpoint: Checkpoint, names: Mapping[str, bytes]) -> None:
    """Spark renames its files into place and never fsyncs them: a power cut would leave them empty."""
    if not files.is_local(checkpoint.url):
        return
    for name in names:
        files.fsync_file(Path(checkpoint.url, name))
    for folder in {str(Path(checkpoint.url, name).parent) for name in names}:
        files.fsync_folder(Path(folder))


def _log_url(sink: Sink) -> str:
    return sink.native.log_url if sink.native is not None else ""


def parse_offset(source: Mapping[str, Any], key: str) -> Any:
    """A position in a progress report: Spark gives JSON, or the text of JSON."""
    found = source.get(key)
    try:
        return json.loads(found) if isinstance(found, str) else found
    except ValueError:
        return found
