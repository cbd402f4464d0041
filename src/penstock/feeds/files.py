"""Writes records to files in a folder, one per line; a file appears complete or not at all."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from penstock.errors import CallError, PenstockError
from penstock.feeds.record import Record

_MAX_AGE_SECONDS = 1.0


@dataclass
class FilesTarget:
    """A folder. A file is written under a hidden name, which Spark ignores, and renamed when it is complete.

    It is complete when it has `max_records` records or is a second old.
    """

    folder: Path
    name: str
    suffix: str = "json"
    max_records: int = 1000
    now: Callable[[], float] = time.monotonic
    acked: int = 0
    _file: BinaryIO | None = None
    _opened_at: float = 0.0
    _lines: int = 0
    _files: int = 0
    _run: str = field(default_factory=lambda: uuid.uuid4().hex[:8])

    def open(self) -> None:
        """Create the folder and check that it is writable."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            probe = self.folder / f".{self.name}-{self._run}.tmp"
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise CallError(f"the folder {self.folder} cannot be written: {_reason(error)}; give another") from error

    def send(self, records: Sequence[Record]) -> None:
        """Write records; they count as arrived when their file is renamed."""
        try:
            for record in records:
                if self._file is None:
                    self._start_file()
                assert self._file is not None
                self._file.write(format_line(record, "a file"))
                self._lines += 1
                if self._lines == self.max_records:
                    self._publish()
            if self._file is not None and self.now() - self._opened_at >= _MAX_AGE_SECONDS:
                self._publish()
        except OSError as error:
            raise PenstockError(
                f"writing to {self.folder} failed: {_reason(error)}; make room or give another"
            ) from error

    def flush(self) -> None:
        """Complete the current file."""
        if self._file is not None:
            self._publish()

    def close(self) -> None:
        """Delete an incomplete file."""
        if self._file is not None:
            self._file.close()
            self._file = None
            self._hidden.unlink(missing_ok=True)

    @property
    def _visible(self) -> Path:
        return self.folder / f"{self.name}-{self._run}-{self._files:06}.{self.suffix}"

    @property
    def _hidden(self) -> Path:
        return self._visible.with_name(f".{self._visible.name}.tmp")

    def _start_file(self) -> None:
        self._files += 1
        self._file, self._lines, self._opened_at = self._hidden.open("wb"), 0, self.now()

    def _publish(self) -> None:
        assert self._file is not None
        self._file.close()
        self._file = None
        self._hidden.rename(self._visible)
        self.acked += self._lines


def format_line(record: Record, place: str) -> bytes:
    """Encode a record as one line of text; an error if it does not fit on one."""
    value = record.value
    if value is None or b"\n" in value:
        found = "no value" if value is None else "a line break in its value"
        raise PenstockError(f"a record has {found}, and {place} has one record per line; send it to kafka instead")
    return value + b"\n"


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
