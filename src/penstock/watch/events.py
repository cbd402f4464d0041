"""The event log: one JSON object a line, the one record of what happened."""

from __future__ import annotations

import json
import os
import threading
from datetime import datetime, timezone
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
