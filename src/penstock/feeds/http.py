"""A long-lived HTTP stream of JSON lines, as social-media APIs give it, as records: reconnects, resumes, leaves out
what comes again.

connected ──line── line ── (blank: heartbeat) ── line ──╳ silence, drop, 429, 503
    ▲                                                   │ wait: 1 s, 2 s, 4 s ... a minute, with jitter, or Retry-After
    └───────────────────── since_id=LAST ───────────────┘
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.errors import CallError, PenstockError, UnreachableError
from penstock.feeds import rows
from penstock.feeds.backoff import Backoff
from penstock.feeds.http_connection import BrokenError, address, connected
from penstock.feeds.record import NOTHING, Record
from penstock.feeds.sending import Clock
from penstock.options import Secret

REMEMBERED = 100_000
_TICK_SECONDS = 0.2


@dataclass(frozen=True)
class Resume:
    """How the server is told where to go on, and what is known by then."""

    field: str | None = None
    """The field of a record that identifies it."""
    parameter: str | None = None
    """The parameter that takes the last record's field: since_id."""
    backfill: str | None = None
    """The parameter that takes the minutes that were missed: backfill_minutes."""
    backfill_most: int = 5
    file: Path | None = None
    """Where the field of the last record that has arrived is kept for the next start."""


@dataclass
class Stream:
    """Records of an address. A line that is no JSON is a record too: the pipeline says what becomes of it.

    A record whose `resume.field` was among the last 100,000 is left out. That covers what a server sends again after
    a reconnect; after a restart of the feed, what had been sent since the last note may be sent again.
    """

    url: str
    say: Callable[[str], None]
    token: Secret | None = None
    heartbeat_seconds: float = 30.0
    resume: Resume = field(default_factory=Resume)
    key_field: str | None = None
    retries: int | None = None
    for_seconds: float | None = None
    backoff: Backoff = field(default_factory=Backoff)
    clock: Clock = field(default_factory=Clock)
    last: str | None = None
    left_out: int = 0
    _seen: dict[str, None] = field(default_factory=dict)
    _heard_at: float | None = None
    _failures: int = 0

    def records(self) -> Iterator[Record]:
        """Records as they come, and NOTHING now and then while none comes."""
        parts = address(self.url, self.token)
        self.last = self.last or self._noted()
        ends_at = math.inf if self.for_seconds is None else self.clock.now() + self.for_seconds
        while self.clock.now() < ends_at:
            try:
                # No longer than the feed has: the end must not wait for a heartbeat.
                silence = min(self.heartbeat_seconds, max(0.001, ends_at - self.clock.now()))
                with connected(parts, self.token, self._parameters(), silence) as lines:
                    self.say(f"connected to {parts.hostname}")
                    for line in lines:
                        self._failures, self._heard_at = 0, self.clock.now()
                        yield self._record(line)
                        if self.clock.now() >= ends_at:
                            return
            except BrokenError as error:
                if self.clock.now() < ends_at:
                    yield from self._wait(error, parts.hostname or "", ends_at)

    def note(self) -> None:
        """Write down the last record; called when it, and all before it, have arrived."""
        if self.resume.file is None or self.last is None:
            return
        hidden = self.resume.file.with_name(f".{self.resume.file.name}.tmp")
        try:
            hidden.write_text(self.last + "\n", encoding="utf-8")
            hidden.replace(self.resume.file)
        except OSError as error:
            raise PenstockError(f"{self.resume.file} cannot be written: {(error.strerror or '').lower()}") from error

    def _noted(self) -> str | None:
        file = self.resume.file
        try:
            return file.read_text(encoding="utf-8").strip() or None if file and file.exists() else None
        except (OSError, ValueError) as error:
            raise CallError(f"{file} cannot be read: {error}; correct --resume-file") from error

    def _parameters(self) -> dict[str, str]:
        told: dict[str, str] = {}
        if self.resume.parameter and self.last is not None:
            told[self.resume.parameter] = self.last
        if self.resume.backfill and self._heard_at is not None:
            minutes = math.ceil((self.clock.now() - self._heard_at) / 60)
            told[self.resume.backfill] = str(min(max(1, minutes), self.resume.backfill_most))
        return told

    def _record(self, line: bytes) -> Record:
        if not line.strip():
            return NOTHING
        if not self.resume.field and not self.key_field:
            return Record(None, line)
        row = _object(line)
        if self.resume.field and not self._is_new(rows.field(row, self.resume.field)):
            self.left_out += 1
            return NOTHING
        key = rows.field(row, self.key_field) if self.key_field else None
        return Record(None if key is rows.MISSING else rows.key(key), line)

    def _is_new(self, found: Any) -> bool:
        if found is None or found is rows.MISSING:
            return True
        name = found if isinstance(found, str) else json.dumps(found)
        if name in self._seen:
            return False
        self._seen[name] = None
        if len(self._seen) > REMEMBERED:
            del self._seen[next(iter(self._seen))]
        self.last = name
        return True

    def _wait(self, error: BrokenError, host: str, ends_at: float) -> Iterator[Record]:
        self._failures += 1
        if self.retries is not None and self._failures > self.retries:
            raise UnreachableError(f"{host}: {error}; gave up after {self._failures} failures in a row") from error
        seconds = self.backoff.wait_seconds(self._failures, random.random())  # noqa: S311 - jitter
        # Coming back before the server allows it would only make the ban longer.
        seconds = max(seconds, error.after_seconds or 0.0)
        self.say(f"{host}: {error}; trying again in {seconds:.1f} s")
        until = min(self.clock.now() + seconds, ends_at)
        while (left := until - self.clock.now()) > 0:
            self.clock.sleep(min(left, _TICK_SECONDS))
            yield NOTHING


def _object(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
