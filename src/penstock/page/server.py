"""The page on a port of this machine: in the foreground, or in a thread beside something else."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from penstock.errors import CallError
from penstock.page.app import app
from penstock.page.tokens import new_token, token_file

_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_MAX_WAITING = 256
_MAX_CONNECTIONS = 2 * _MAX_WAITING
"""Connections are accepted in bursts, faster than those before them are closed."""
_PATIENCE_SECONDS = 10.0
_HEADER_BYTES = 16_384


class Impatient(H11Protocol):
    """Closes a connection whose request is not whole after a few seconds, however slowly it keeps coming."""

    _timer: asyncio.TimerHandle | None = None
    _since: float = 0.0

    def connection_made(self, transport: Any) -> None:
        """The time runs from the first moment: who connects has something to ask."""
        self._since = self.loop.time()
        self._make_room()
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Until the whole request is there."""
        super().data_received(data)
        if self.is_waiting:
            self._wait()
        else:
            self._enough()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing to wait for."""
        self._enough()
        super().connection_lost(exc)

    @property
    def is_waiting(self) -> bool:
        """Whether the client has still to send a request, or the rest of one."""
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY)

    def _make_room(self) -> None:
        """Close the oldest connection that asks for nothing, so that those who do are answered."""
        if len(self.connections) < _MAX_WAITING:
            return
        waiting = [each for each in self.connections if isinstance(each, Impatient) and each.is_waiting]
        if idle := [each for each in waiting if not each.transport.is_closing()]:
            min(idle, key=lambda each: each._since).transport.close()

    def _wait(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(_PATIENCE_SECONDS, self._give_up)

    def _enough(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._timer = None
        if self.is_waiting:
            self.transport.close()


@dataclass(frozen=True)
class Where:
    """What the page is served on."""

    host: str = "127.0.0.1"
    port: int = 0
    cert: str = ""
    key: str = ""
    names: tuple[str, ...] = ()
    port_option: str = "--port"
    """What the command calls `port`."""

    def __post_init__(self) -> None:
        if self.host not in _LOOPBACK and not (self.cert and self.key):
            fix = "give --cert and --key, or leave --host out"
            raise CallError(f"the page on {self.host} would send its token over the network in the clear; {fix}")

    @property
    def secure(self) -> bool:
        """Whether it is served with TLS."""
        return bool(self.cert)


@dataclass(frozen=True)
class Served:
    """A page that is being served."""

    address: str
    """Without the token."""
    token: str
    token_file: Path

    @property
    def link(self) -> str:
        """To be opened in a browser; what follows `#` is not sent to the server, so it is in no log."""
        return f"{self.address}/#token={self.token}"

    def invitation(self, *, terminal: bool) -> str:
        """How to open it. What is not a terminal may be a journal that others read, so it does not get the token."""
        return self.link if terminal else f"{self.address}/ (the token is in {self.token_file})"


class _Server(uvicorn.Server):
    def install_signal_handlers(self) -> None:
        """Signals belong to whoever serves."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """The same, as newer versions ask for it."""
        yield


@contextmanager
def served(storage: str, where: Where = Where(), *, only: str = "", token: str = "") -> Iterator[Served]:  # noqa: B008
    """The page in a thread, from now until this ends; the token is a new one unless it is given."""
    token = token or new_token()
    listener = _listen(where)
    page = app(storage, token, only=only, names=where.names, secure=where.secure)
    config = uvicorn.Config(
        page,
        http=Impatient,
        ws="none",
        lifespan="on",
        log_config=None,
        # What uvicorn warns of is what clients send. Failures of our own are logged by the guard, in one line.
        log_level="critical",
        access_log=False,
        server_header=False,
        limit_concurrency=_MAX_CONNECTIONS,
        h11_max_incomplete_event_size=_HEADER_BYTES,
        timeout_keep_alive=int(_PATIENCE_SECONDS),
        timeout_graceful_shutdown=2,
        ssl_certfile=where.cert or None,
        ssl_keyfile=where.key or None,
    )
    server = _Server(config)
    thread = threading.Thread(target=server.run, args=([listener],), name="page", daemon=True)
    thread.start()
    host = f"[{where.host}]" if ":" in where.host else where.host
    scheme = "https" if where.secure else "http"
    port = listener.getsockname()[1]
    try:
        with token_file(storage, port, token) as file:
            yield Served(f"{scheme}://{host}:{port}", token, file)
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


def _listen(where: Where) -> socket.socket:
    family = socket.AF_INET6 if ":" in where.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((where.host, where.port))
    except OSError as error:
        listener.close()
        says = f"port {where.port} of {where.host} cannot be used: {error.strerror}"
        raise CallError(f"{says}; give another {where.port_option}, or 0 for any that is free") from error
    listener.listen(128)
    return listener
