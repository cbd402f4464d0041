"""Resets a sink: its checkpoint and its ledger are moved aside, not deleted."""

from __future__ import annotations

from pathlib import Path

from penstock.storage import files
from penstock.storage.layout import Storage
from penstock.storage.verify import SinkStorage


def reset_sink(sink: SinkStorage, mark: str) -> str:
    """Move a sink's checkpoint and ledger aside; returns where they are."""
    place = Storage(sink.storage.replaced(mark))
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
