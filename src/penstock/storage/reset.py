"""A sink that begins anew on the user's word: its checkpoint and its records are moved aside, not deleted."""

from __future__ import annotations

from pathlib import Path

from penstock.storage import files
from penstock.storage.verify import SinkStorage


def reset_sink(sink: SinkStorage, mark: str) -> str:
    """Move what is there to `<storage>/before/<mark>`; gives that place."""
    place = f"{sink.storage}/before/{mark}"
    for part in ("checkpoints", "ledger"):
        _move(f"{sink.storage}/{part}/{sink.name}", f"{place}/{part}/{sink.name}")
    return place


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
