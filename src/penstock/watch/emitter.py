"""Emits the events of running queries: all of them to the event log, some also to the terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from penstock.events import EventLog, delete_before, describe, first_day, kind_of
from penstock.watch.state import OpenWindows, StateLimit


@dataclass
class EventEmitter:
    """Appends events to the log, prints those that the catalogue marks, and deletes expired ones."""

    log: EventLog
    print_status: Callable[[str], None]
    limit: StateLimit
    static: Iterable[str] = ()
    """The names of the static tables, whose age is in every batch event."""
    history_seconds: float = 0.0
    """How long events are kept; 0 keeps them forever."""
    _deleted_before: str = ""
    _windows: OpenWindows = field(default_factory=OpenWindows)

    def __post_init__(self) -> None:
        self._loaded_at = {name: time.monotonic() for name in self.static}

    def emit_batch(self, progress: dict[str, Any]) -> None:
        """Emit a batch, with the facts that Spark's progress report lacks."""
        facts: dict[str, Any] = {}
        oldest = self._windows.oldest(progress)
        if oldest:
            facts["oldest_window_ends"] = oldest
        if self._loaded_at:
            now = time.monotonic()
            facts["static_age_seconds"] = {name: round(now - at, 1) for name, at in self._loaded_at.items()}
        self.emit("batch", progress=progress, **facts)
        self._delete_old_events()
        exceeded = self.limit.check(progress)
        if exceeded is not None:
            self.emit("state_limit", **exceeded)

    def emit(self, what: str, **facts: Any) -> None:
        """Emit any other event."""
        if what == "refreshed":
            self._loaded_at[facts["source"]] = time.monotonic()
        self.log.append(what, **facts)
        event = {"what": what, **facts}
        if kind_of(event).printed:
            self.print_status(describe(event))

    def _delete_old_events(self) -> None:
        """Once a day, delete the events that are older than the history."""
        day = first_day(self.history_seconds, datetime.now(timezone.utc)) if self.history_seconds else ""
        if day != self._deleted_before:
            self._deleted_before = day
            delete_before(self.log.folder, day)
