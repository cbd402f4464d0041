"""What a running pipeline says: every fact to the event log, what matters to the user in a line."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from penstock.events import EventLog, delete_before, first_day
from penstock.watch.state import OpenWindows, StateLimit


@dataclass
class Report:
    """Takes what happens while queries run."""

    log: EventLog
    say: Callable[[str], None]
    limit: StateLimit
    static: Iterable[str] = ()
    history_seconds: float = 0.0
    """How long events are kept; 0 for ever."""
    _forgotten: str = ""
    _windows: OpenWindows = field(default_factory=OpenWindows)

    def __post_init__(self) -> None:
        self._read_at = {name: time.monotonic() for name in self.static}

    def batch(self, progress: dict[str, Any]) -> None:
        """Write a batch down, with what Spark does not say of it."""
        facts: dict[str, Any] = {}
        oldest = self._windows.oldest(progress)
        if oldest:
            facts["oldest_window_ends"] = oldest
        if self._read_at:
            now = time.monotonic()
            facts["static_age_seconds"] = {name: round(now - moment, 1) for name, moment in self._read_at.items()}
        self.log.record("batch", progress=progress, **facts)
        self._forget()
        crossed = self.limit.crossed(progress)
        if crossed is not None:
            self.tell("state_limit", **crossed)

    def _forget(self) -> None:
        """Once a day: what is older than the history is deleted."""
        day = first_day(self.history_seconds, datetime.now(timezone.utc)) if self.history_seconds else ""
        if day != self._forgotten:
            self._forgotten = day
            delete_before(self.log.folder, day)

    def tell(self, what: str, **facts: Any) -> None:
        """Write any other fact down."""
        if what == "refreshed":
            self._read_at[facts["source"]] = time.monotonic()
        self.log.record(what, **facts)
        if what in _LINES:
            self.say(_LINES[what].format(**facts))


_LINES = {
    "refreshed": "{source}: the table was read again",
    "stale": "{source}: the table could not be read again, and stays as it was: {reason}",
    "missed": "{sink}: {rows:,} rows of batch {batch} are missing in {target!r}, which is optional: {reason}",
    "not_counted": "{sink}: warning: the query runs, but its late rows cannot be counted: {reason}",
    "state_limit": (
        "{sink}: the state has {rows:,} rows and {bytes:,} bytes, more than the limit of {limit:,}; "
        "shorten the watermark's delay or the windows, forget keys sooner, or raise 'state_limit'"
    ),
}
