"""Sends records as lines to a connected reader: the server that a `socket` source reads from."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from penstock.errors import CallError
from penstock.feeds.files import format_line
from penstock.feeds.record import Record


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
