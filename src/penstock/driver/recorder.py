"""Appends every committed batch to the journal, from Spark's progress report."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from penstock.model import Pipeline, Sink
from penstock.storage import files
from penstock.storage.checkpoint import Checkpoint, texts
from penstock.storage.files import digest
from penstock.storage.layout import Storage
from penstock.storage.ledger import KEPT, Record
from penstock.storage.state import digests
from penstock.storage.verify import SinkStorage, log_entries, output_path
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
    commits = known.checkpoint.numbers("commits")
    missing = sorted({number for number in commits if number > commits[-1] - KEPT} - set(known.journal.numbers))
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
    log = {
        name: content
        for name in (str(batch), f"{batch}.compact")
        if known.log_url and (content := files.read(f"{known.log_url}/{name}")) is not None
    }
    _fsync(checkpoint, contents, batch)
    _fsync_output(known.log_url, log)
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
        state=digests(checkpoint, batch + 1),
        schemas={name: b64encode(content).decode() for name, content in checkpoint.state_schemas().items()},
        texts=texts(contents),
        log_url=known.log_url,
        log={name: digest(content) for name, content in log.items()},
        log_texts=texts(log),
        adopted=adopted,
    )


def _fsync(checkpoint: Checkpoint, names: Mapping[str, bytes], batch: int) -> None:
    """Spark renames its files into place and never fsyncs them: a power cut would leave them empty."""
    if not files.is_local(checkpoint.url):
        return
    files.fsync_files(Path(checkpoint.url, name) for name in names)
    checkpoint.fsync_state(batch + 1)


def _fsync_output(url: str, log: Mapping[str, bytes]) -> None:
    """The same for output for which Spark keeps a log."""
    if not log or not files.is_local(url):
        return
    entries = [entry for content in log.values() for entry in log_entries(content)]
    if any(name.endswith(".compact") for name in log):
        # It names the output of every batch before as well, which is on the disk.
        older = [name for name in files.list_names(url) if name not in log and not name.startswith(".")]
        known = {str(entry["path"]) for name in older for entry in log_entries(files.read(f"{url}/{name}") or b"v")}
        entries = [entry for entry in entries if entry["path"] not in known]
    data = [path for path in map(output_path, entries) if path is not None and path.exists()]
    files.fsync_files([*data, *(Path(url, name) for name in log)])


def _log_url(sink: Sink) -> str:
    return sink.native.log_url if sink.native is not None else ""


def parse_offset(source: Mapping[str, Any], key: str) -> Any:
    """A position in a progress report: Spark gives JSON, or the text of JSON."""
    found = source.get(key)
    try:
        return json.loads(found) if isinstance(found, str) else found
    except ValueError:
        return found
