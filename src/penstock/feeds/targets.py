"""Where a feed writes to besides Kafka: folders of files and sockets."""

from __future__ import annotations

import os
import socket
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from penstock.errors import CallError, PenstockError
from penstock.feeds.records import Record

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


@dataclass
class SocketTarget:
    """A port. It waits for one reader; when that disconnects, it waits for the next one and continues.

    TCP does not report delivery: `acked` counts what the kernel has accepted, and a reader that dies may miss some.
    """

    host: str
    port: int
    print_status: Callable[[str], None]
    acked: int = 0
    _server: socket.socket | None = None
    _reader: socket.socket | None = None

    def open(self) -> None:
        """Listen, and wait for the first reader."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        try:
            self._server = socket.create_server((self.host, self.port), family=family, backlog=1)
        except OSError as error:
            # The text of the error repeats the address.
            why = os.strerror(error.errno).lower() if error.errno else str(error)
            fix = "stop the process that uses it, or give another port (here and in the pipeline)"
            raise CallError(f"cannot listen at {self.host}:{self.port}: {why}; {fix}") from error
        self._wait_for_reader()

    def send(self, records: Sequence[Record]) -> None:
        """Write lines; blocks while the reader is slow."""
        data = b"".join(format_line(record, "a socket") for record in records)
        while True:
            assert self._reader is not None
            try:
                self._reader.sendall(data)
                break
            except OSError:
                self.print_status(f"the reader disconnected after {self.acked:,} records; some of the last may be lost")
                self._reader.close()
                self._wait_for_reader()
        self.acked += len(records)

    def flush(self) -> None:
        """Nothing is buffered here."""

    def close(self) -> None:
        """End the connection so that the reader gets all that was written."""
        if self._reader is not None:
            with suppress(OSError):
                self._reader.shutdown(socket.SHUT_WR)
            self._reader.close()
        if self._server is not None:
            self._server.close()

    def _wait_for_reader(self) -> None:
        assert self._server is not None
        host, port = self._server.getsockname()[:2]
        self.print_status(f"listening at {host}:{port}; waiting for a pipeline's socket source to connect")
        self._reader, _ = self._server.accept()
        self._reader.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
