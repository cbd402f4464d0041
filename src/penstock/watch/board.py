"""Every pipeline of a storage, kept up to date from their event logs."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any

from penstock.events import EventTail, first_day
from penstock.processes import identity, was_running_at
from penstock.storage.layout import Storage
from penstock.watch.reducer import PipelineReducer, Process
from penstock.watch.views import PipelineView

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
#: How much history is read when the manifest does not say.
HISTORY_SECONDS = 7 * 86_400.0


@dataclass
class _Entry:
    tail: EventTail
    reducer: PipelineReducer


@dataclass
class Board:
    """The pipelines of a storage, or one of them; only `refresh` reads their logs."""

    storage: str
    only: str = ""
    _entries: dict[str, _Entry] = field(default_factory=dict)

    def refresh(self) -> set[str]:
        """Read new events; returns the names of the pipelines that have some."""
        changed = set()
        for name in self._find_names():
            entry = self._entries.get(name) or self._add(name)
            before = entry.reducer.changes
            for event in entry.tail.read_new():
                if event["what"] in ("started", "lease_taken", "driver_started"):
                    # The pipeline's file may have changed since the last run.
                    entry.reducer.manifest = self._read_manifest(name)
                entry.reducer.apply(event)
            if entry.reducer.changes != before:
                changed.add(name)
        return changed

    def names(self) -> list[str]:
        """The pipelines that the last `refresh` found."""
        return sorted(self._entries)

    def reducer(self, name: str) -> PipelineReducer | None:
        """The reducer of one pipeline, if there is such a pipeline."""
        entry = self._entries.get(name)
        return entry.reducer if entry else None

    def views(self, now: float | None = None) -> list[PipelineView]:
        """Every pipeline at this time."""
        return [view for name in self.names() if (view := self.view(name, now)) is not None]

    def view(self, name: str, now: float | None = None) -> PipelineView | None:
        """One pipeline at this time, if there is such a pipeline."""
        entry = self._entries.get(name)
        if entry is None:
            return None
        view = entry.reducer.view(time.time() if now is None else now, is_alive)
        return replace(view, broken_lines=entry.tail.broken + entry.reducer.damaged)

    def _add(self, name: str) -> _Entry:
        manifest = self._read_manifest(name)
        known = manifest.get("history_seconds")
        history_seconds = float(known) if known and isinstance(known, int | float) else HISTORY_SECONDS
        since = first_day(history_seconds, datetime.now(timezone.utc))
        tail = EventTail(Storage.by_name(self.storage, name).events, since)
        self._entries[name] = _Entry(tail, PipelineReducer(name, manifest))
        return self._entries[name]

    def _find_names(self) -> Iterator[str]:
        import fsspec

        if self.only:
            yield self.only
            return
        system, path = fsspec.url_to_fs(self.storage)
        system.invalidate_cache()
        try:
            entries = system.ls(path, detail=True)
        except (FileNotFoundError, NotADirectoryError):
            return
        for entry in entries:
            name = str(entry["name"]).rstrip("/").rsplit("/", 1)[-1]
            if entry["type"] == "directory" and NAME.fullmatch(name) and self._is_pipeline(name):
                yield name

    def _is_pipeline(self, name: str) -> bool:
        import fsspec

        system, path = fsspec.url_to_fs(Storage.by_name(self.storage, name).events)
        return name in self._entries or bool(system.isdir(path))

    def _read_manifest(self, name: str) -> Mapping[str, Any]:
        import fsspec

        try:
            with fsspec.open(Storage.by_name(self.storage, name).manifest, "rb") as file:
                manifest = json.load(file)
        except (FileNotFoundError, NotADirectoryError, ValueError):
            # Written by an old version, or killed while writing it: views work without.
            return {}
        return manifest if isinstance(manifest, dict) and isinstance(manifest.get("nodes", []), list) else {}


def is_alive(process: Process) -> bool:
    """Whether the process that wrote an event still runs; assumed for other hosts."""
    if process.host != socket.gethostname():
        return True
    if process.identity:
        return identity(process.pid) == process.identity
    return was_running_at(process.pid, process.at)
