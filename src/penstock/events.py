"""The event log: one JSON object a line, the one record of what happened."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, BinaryIO

from penstock.redaction import redact, redacted


class EventLog:
    """Appends facts to `events/<day>.jsonl` of a pipeline's storage; safe from any thread."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._lock = threading.Lock()
        self._day = ""
        self._file: BinaryIO | None = None

    def record(self, what: str, **facts: Any) -> None:
        """Write one fact down; it is on its way to the disk when this returns."""
        now = datetime.now(timezone.utc)
        text = json.dumps(
            {"at": now.isoformat(timespec="milliseconds"), "what": what, **redacted(facts)}, default=_shown
        )
        with self._lock:
            file = self._today(now.date().isoformat())
            # In one write: the supervisor and the driver append to the same file.
            file.write(text.encode() + b"\n")
            file.flush()

    def close(self) -> None:
        """Close the file of the day."""
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file, self._day = None, ""

    def _today(self, day: str) -> BinaryIO:
        if self._file is None or day != self._day:
            if self._file is not None:
                self._file.close()
            self._file, self._day = self._open(day), day
        return self._file

    def _open(self, day: str) -> BinaryIO:
        if "://" not in self.folder:
            Path(self.folder).mkdir(parents=True, exist_ok=True, mode=0o700)
            return Path(self.folder, f"{day}.jsonl").open("ab", buffering=0)
        import fsspec

        # Object stores cannot append: every run has a file of its own there.
        started = f"{datetime.now(timezone.utc):%H%M%S%f}-{os.getpid()}"
        opened: BinaryIO = fsspec.open(f"{self.folder}/{day}-{started}.jsonl", "wb").open()
        return opened


def _shown(value: object) -> str:
    return redact(str(value))


Event = dict[str, Any]

_MOST_BYTES = 16_000_000
_DAY = len("2024-01-01")


def events_folder(storage: str, name: str) -> str:
    """Where the events of a pipeline are, inside a storage."""
    return f"{storage.rstrip('/')}/{name}/events"


def first_day(history_seconds: float, now: datetime) -> str:
    """The oldest day that a history of this length reaches into."""
    return (now - timedelta(seconds=history_seconds)).date().isoformat()


@dataclass
class EventTail:
    """One pipeline's events, each handed out once, in the order in which they were written.

    A line that is still being written is left for the next time; one that is no event is counted, not raised: a crash
    in the middle of a line must not hide what came after it.
    """

    folder: str
    since: str = ""
    """The first day that is read, like 2024-01-31; empty for all of them."""
    broken: int = 0
    _read: dict[str, int] = field(default_factory=dict)

    def new(self) -> Iterator[Event]:
        """What was written since the last time."""
        for file, size in self._files():
            begin = self._read.get(file, 0)
            while begin < size:
                taken, complete = self._lines(file, begin)
                if not complete:
                    break
                begin += complete
                self._read[file] = begin
                yield from taken

    def skip_to_end(self) -> None:
        """Leave out what there is; `new` gives only what comes later."""
        self._read = dict(self._files())

    def _files(self) -> list[tuple[str, int]]:
        import fsspec

        system, path = fsspec.url_to_fs(self.folder)
        system.invalidate_cache()
        try:
            found = system.ls(path, detail=True)
        except (FileNotFoundError, NotADirectoryError):
            return []
        files = [(str(each["name"]), int(each["size"] or 0)) for each in found if each["name"].endswith(".jsonl")]
        return sorted(each for each in files if _name(each[0])[:_DAY] >= self.since)

    def _lines(self, file: str, begin: int) -> tuple[list[Event], int]:
        import fsspec

        system, _ = fsspec.url_to_fs(self.folder)
        with system.open(file, "rb") as opened:
            opened.seek(begin)
            data = opened.read(_MOST_BYTES)
        end = data.rfind(b"\n") + 1
        if not end and len(data) == _MOST_BYTES:
            # No event is that long: whatever it is, it is passed over.
            self.broken += 1
            return [], len(data)
        found = [self._event(line) for line in data[:end].splitlines() if line.strip()]
        return [event for event in found if event is not None], end

    def _event(self, line: bytes) -> Event | None:
        try:
            event = json.loads(line)
        except ValueError:
            event = None
        if isinstance(event, dict) and isinstance(event.get("what"), str) and isinstance(event.get("at"), str):
            return event
        self.broken += 1
        return None


def delete_before(folder: str, day: str) -> list[str]:
    """Delete the files of days before this one; which they were."""
    import fsspec

    system, path = fsspec.url_to_fs(folder)
    try:
        found = [str(each) for each in system.ls(path, detail=False)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    old = [each for each in found if each.endswith(".jsonl") and _is_day(_name(each)) and _name(each)[:_DAY] < day]
    for file in old:
        system.rm_file(file)
    return old


def parse_time(text: object) -> float:
    """A time as the log or Spark writes it, in seconds since 1970; 0 for none."""
    if not text:
        return 0.0
    try:
        parsed = datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    except ValueError:
        return 0.0
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=timezone.utc)).timestamp()


def _name(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def _is_day(name: str) -> bool:
    return parse_time(name[:_DAY]) > 0
