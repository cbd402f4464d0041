"""The state of queries: its oldest open windows, and whether it exceeds its limit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from penstock.events import EventLog, delete_before, describe, first_day, kind_of
from penstock.options import parse_time
from penstock.watch.snapshot import LATE, snapshot

#: How many windows after the watermark are distinguished; later ones count as the last of them.
OPEN_WINDOWS = 62


@dataclass
class OpenWindows:
    """The open windows of each aggregation of each query, from its progress reports since the run began."""

    _ends: dict[tuple[str, str], set[int]] = field(default_factory=dict)

    def oldest(self, progress: Mapping[str, Any]) -> dict[str, str]:
        """The end of the oldest window still open after this batch, by aggregation."""
        query = str(progress.get("name"))
        watermark = _micros(progress.get("eventTime", {}).get("watermark"))
        for name, row in (progress.get("observedMetrics") or {}).items():
            if name.startswith(LATE) and row and row.get("slide"):
                ends = self._ends.setdefault((query, name.removeprefix(LATE)), set())
                ends.update(_window_ends(row))
        oldest = {}
        for (owner, number), ends in self._ends.items():
            if owner == query:
                ends.difference_update([end for end in ends if end <= watermark])
                if ends:
                    oldest[number] = _format_time(min(ends))
        return oldest


def _window_ends(row: Mapping[str, Any]) -> Iterator[int]:
    bits, oldest, slide = row.get("open") or 0, row.get("oldest") or 0, int(row["slide"])
    places = [place for place in range(OPEN_WINDOWS) if bits >> place & 1]
    return (oldest + (place - places[0]) * slide for place in places)


@dataclass
class StateLimit:
    """Detects when a query's state exceeds a limit; reported once each time that it does."""

    max_bytes: int
    _over: set[str] = field(default_factory=set)

    def check(self, progress: Mapping[str, Any]) -> dict[str, Any] | None:
        """The facts of the event if the query's state has just exceeded the limit."""
        seen = snapshot(progress)
        if seen.state_bytes <= self.max_bytes:
            self._over.discard(seen.query)
            return None
        if seen.query in self._over:
            return None
        self._over.add(seen.query)
        return {"sink": seen.query, "rows": seen.state_rows, "bytes": seen.state_bytes, "limit": self.max_bytes}


def default_limit() -> int:
    """Half of the machine's memory."""
    import psutil

    return int(psutil.virtual_memory().total // 2)


def _micros(timestamp: Any) -> int:
    return int(parse_time(str(timestamp)).timestamp() * 1_000_000) if timestamp else 0


def _format_time(micros: int) -> str:
    time = datetime.fromtimestamp(micros / 1_000_000, timezone.utc)
    return time.isoformat(sep=" ", timespec="milliseconds").replace("+00:00", "").removesuffix(".000")


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
