"""The channel between supervisor and driver: lines of JSON over a pair of sockets.

    supervisor ── start, drain ───────────────────────────────► driver; end of file: the supervisor is dead
    supervisor ◄── status, waiting, started, heartbeat, batch, ended ── driver

`start` carries the lease's lock as an open file that the driver and its JVM keep: it is free when they are all dead.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

_MOST_BYTES = 1 << 16


@dataclass(frozen=True)
class RunOptions:
    """The options of `penstock run`; the same for every driver of a run."""

    file: str
    once: bool = False
    master: str | None = None
    wait_seconds: float = 30.0
    verbose: bool = False
    drain_seconds: float = 60.0

    def text(self) -> str:
        """As one argument of the driver's command line."""
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, text: str) -> RunOptions:
        """The options that `text` has written."""
        return cls(**json.loads(text))


class Channel:
    """One end of the pair; safe to write to from any thread."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._lock = threading.Lock()

    def fileno(self) -> int:
        """Its file descriptor, for a child to inherit."""
        return self._end.fileno()

    def send(self, message: dict[str, Any], fd: int | None = None) -> bool:
        """Send a message, with an open file if given; False if the other end is closed."""
        data = json.dumps(message, default=str).encode() + b"\n"
        try:
            with self._lock:
                sent = socket.send_fds(self._end, [data], [fd]) if fd is not None else 0
                self._end.sendall(data[sent:])
        except OSError:
            return False
        return True

    def messages(self) -> Iterator[tuple[dict[str, Any], list[int]]]:
        """The messages of the other end, each with the files that came with it, until it is closed."""
        waiting, files = b"", []
        while True:
            try:
                data, fds, _, _ = socket.recv_fds(self._end, _MOST_BYTES, 4)
            except OSError:
                return
            if not data:
                return
            files += fds
            *lines, waiting = (waiting + data).split(b"\n")
            for line in lines:
                yield json.loads(line), files
                files = []

    def close(self) -> None:
        """Close this end."""
        # The other end may be closed already.
        with contextlib.suppress(OSError):
            self._end.shutdown(socket.SHUT_RDWR)
        self._end.close()
