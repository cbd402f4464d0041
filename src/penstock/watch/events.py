"""The event log: one JSON object a line, the one record of what happened."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, BinaryIO

from penstock.redaction import redact, redacted


class EventLog:
    """Appends facts to `events/<day>.jsonl` of a pipeline's storage; safe from any thread."""

    def __init__(self, folder: str) -> None:
        self.folder = self._folder = folder
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
        if "://" not in self._folder:
            Path(self._folder).mkdir(parents=True, exist_ok=True, mode=0o700)
            return Path(self._folder, f"{day}.jsonl").open("ab", buffering=0)
        import fsspec

        # Object stores cannot append: every run has a file of its own there.
        started = f"{datetime.now(timezone.utc):%H%M%S%f}-{os.getpid()}"
        opened: BinaryIO = fsspec.open(f"{self._folder}/{day}-{started}.jsonl", "wb").open()
        return opened


def _shown(value: object) -> str:
    return redact(str(value))


def read(folder: str) -> Iterator[dict[str, Any]]:
    """Every event of a log, oldest first; a line that a crash has cut short is left out."""
    import fsspec

    system, path = fsspec.url_to_fs(folder)
    files = sorted(str(each) for each in system.ls(path, detail=False)) if system.exists(path) else []
    for name in files:
        with system.open(name, "rb") as file:
            for line in file:
                if line.endswith(b"\n"):
                    yield json.loads(line)
