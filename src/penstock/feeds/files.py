"""Records into files of a folder, one a line; a file appears whole or not at all."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from penstock.errors import CallError, PenstockError
from penstock.feeds.record import Record

_MOST_SECONDS = 1.0


@dataclass
class FilesTarget:
    """A folder. A file is written under a hidden name, which Spark ignores, and renamed when it is complete.

    It is complete when it has `most` records, or is a second old.
    """

    folder: Path
    name: str
    suffix: str = "json"
    most: int = 1000
    now: Callable[[], float] = time.monotonic
    acked: int = 0
    _file: BinaryIO | None = None
    _begun: float = 0.0
    _lines: int = 0
    _files: int = 0
    _run: str = field(default_factory=lambda: uuid.uuid4().hex[:8])

    def open(self) -> None:
        """Make the folder, and be sure that it can be written."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            trial = self.folder / f".{self.name}-{self._run}.tmp"
            trial.touch()
            trial.unlink()
        except OSError as error:
            raise CallError(f"the folder {self.folder} cannot be written: {_why(error)}; give another") from error

    def send(self, records: Sequence[Record]) -> None:
        """Write records; those of a file count once it is there."""
        try:
            for record in records:
                if self._file is None:
                    self._begin()
                assert self._file is not None
                self._file.write(line_of(record, "a file"))
                self._lines += 1
                if self._lines == self.most:
                    self._publish()
            if self._file is not None and self.now() - self._begun >= _MOST_SECONDS:
                self._publish()
        except OSError as error:
            raise PenstockError(f"writing to {self.folder} failed: {_why(error)}; make room or give another") from error

    def flush(self) -> None:
        """Complete the file that is under way."""
        if self._file is not None:
            self._publish()

    def close(self) -> None:
        """Take away a file that was not completed."""
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

    def _begin(self) -> None:
        self._files += 1
        self._file, self._lines, self._begun = self._hidden.open("wb"), 0, self.now()

    def _publish(self) -> None:
        assert self._file is not None
        self._file.close()
        self._file = None
        self._hidden.rename(self._visible)
        self.acked += self._lines


def line_of(record: Record, place: str) -> bytes:
    """A record as a line of text; an error if it cannot be one."""
    value = record.value
    if value is None or b"\n" in value:
        found = "no value" if value is None else "a line break in its value"
        raise PenstockError(f"a record has {found}, and {place} has one record a line; send it to kafka instead")
    return value + b"\n"


def _why(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
