"""Records as lines to whoever connects: the server that a `socket` source reads from."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from penstock.errors import CallError
from penstock.feeds.files import line_of
from penstock.feeds.record import Record


@dataclass
class SocketTarget:
    """A port. It waits for one reader; when that goes away, it waits for the next and goes on.

    TCP acknowledges nothing to us: `acked` is what the system has taken, and a reader that dies may not have had it.
    """

    host: str
    port: int
    say: Callable[[str], None]
    acked: int = 0
    _server: socket.socket | None = None
    _reader: socket.socket | None = None

    def open(self) -> None:
        """Listen, and wait for the first reader."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        try:
            self._server = socket.create_server((self.host, self.port), family=family, backlog=1)
        except OSError as error:
            # Python adds the address to the text of the error, and we say it ourselves.
            why = os.strerror(error.errno).lower() if error.errno else str(error)
            fix = "end what uses it, or give another port (and the same to the pipeline)"
            raise CallError(f"cannot listen at {self.host}:{self.port}: {why}; {fix}") from error
        self._accept()

    def send(self, records: Sequence[Record]) -> None:
        """Write lines; blocks while the reader is slow."""
        data = b"".join(line_of(record, "a socket") for record in records)
        while True:
            assert self._reader is not None
            try:
                self._reader.sendall(data)
                break
            except OSError:
                self.say(f"the reader went away after {self.acked:,} records; some of the last may be lost")
                self._reader.close()
                self._accept()
        self.acked += len(records)

    def flush(self) -> None:
        """Nothing is held back here."""

    def close(self) -> None:
        """End the connection so that the reader gets all that was written."""
        if self._reader is not None:
            with suppress(OSError):
                self._reader.shutdown(socket.SHUT_WR)
            self._reader.close()
        if self._server is not None:
            self._server.close()

    def _accept(self) -> None:
        assert self._server is not None
        host, port = self._server.getsockname()[:2]
        self.say(f"listening at {host}:{port}; waiting for a pipeline's socket source to connect")
        self._reader, _ = self._server.accept()
        self._reader.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
