"""The event log: one JSON object a line, the one record of what happened."""

from __future__ import annotations

import json
import os
import socket
import threading
from datetime import datetime, timezone
from pathlib import Path
from typing import IO, Any


def this_process() -> dict[str, Any]:
    """Who writes, so that a reader can tell whether it still runs."""
    return {"pid": os.getpid(), "host": socket.gethostname()}


class EventLog:
    """Appends facts to `events/<day>.jsonl` of a pipeline's storage; safe from any thread."""

    def __init__(self, folder: str) -> None:
        self.folder = self._folder = folder
        self._lock = threading.Lock()
        self._day = ""
        self._file: IO[str] | None = None

    def record(self, what: str, **facts: Any) -> None:
        """Write one fact down; it is on its way to the disk when this returns."""
        now = datetime.now(timezone.utc)
        text = json.dumps({"at": now.isoformat(timespec="milliseconds"), "what": what, **facts}, default=str)
        with self._lock:
            file = self._today(now.date().isoformat())
            file.write(text + "\n")
            file.flush()

    def close(self) -> None:
        """Close the file of the day."""
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file, self._day = None, ""

    def _today(self, day: str) -> IO[str]:
        if self._file is None or day != self._day:
            if self._file is not None:
                self._file.close()
            self._file, self._day = self._open(day), day
        return self._file

    def _open(self, day: str) -> IO[str]:
        if "://" not in self._folder:
            Path(self._folder).mkdir(parents=True, exist_ok=True, mode=0o700)
            return Path(self._folder, f"{day}.jsonl").open("a", encoding="utf-8")
        import fsspec

        # Object stores cannot append: every run has a file of its own there.
        started = datetime.now(timezone.utc).strftime("%H%M%S%f")
        opened: IO[str] = fsspec.open(f"{self._folder}/{day}-{started}.jsonl", "w").open()
        return opened
