"""Serves the page on a port, in a thread."""

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
from penstock.page.guard import new_token, token_file

_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_MAX_CONNECTIONS = 256
_HARD_MAX_CONNECTIONS = 2 * _MAX_CONNECTIONS
"""Bursts of connections are accepted faster than idle ones are closed."""
_REQUEST_TIMEOUT_SECONDS = 10.0
_HEADER_BYTES = 16_384


class RequestTimeoutProtocol(H11Protocol):
    """Closes a connection whose request is not complete in time, even if bytes keep arriving."""

    _timer: asyncio.TimerHandle | None = None
    _since: float = 0.0

    def connection_made(self, transport: Any) -> None:
        """Start the timeout when the client connects."""
        self._since = self.loop.time()
        self._make_room()
        super().connection_made(transport)
        self._start_timer()

    def data_received(self, data: bytes) -> None:
        """Stop the timeout when the request is complete."""
        super().data_received(data)
        if self.is_waiting:
            self._start_timer()
        else:
            self._stop_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timeout."""
        self._stop_timer()
        super().connection_lost(exc)

    @property
    def is_waiting(self) -> bool:
        """Whether the client has not sent a complete request yet."""
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY)

    def _make_room(self) -> None:
        """Close the oldest connection without a request, to make room for others."""
        if len(self.connections) < _MAX_CONNECTIONS:
            return
        waiting = [each for each in self.connections if isinstance(each, RequestTimeoutProtocol) and each.is_waiting]
        if idle := [each for each in waiting if not each.transport.is_closing()]:
            min(idle, key=lambda each: each._since).transport.close()

    def _start_timer(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(_REQUEST_TIMEOUT_SECONDS, self._time_out)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _time_out(self) -> None:
        self._timer = None
        if self.is_waiting:
            self.transport.close()


@dataclass(frozen=True)
class Endpoint:
    """Where the page is served: address, port, certificate and names."""

    host: str = "127.0.0.1"
    port: int = 0
    cert: str = ""
    key: str = ""
    names: tuple[str, ...] = ()
    port_option: str = "--port"
    """The command's option for `port`, for messages."""

    def __post_init__(self) -> None:
        if self.host not in _LOOPBACK and not (self.cert and self.key):
            fix = "give --cert and --key, or leave --host out"
            raise CallError(f"the page on {self.host} would send its token over the network in plain text; {fix}")

    @property
    def secure(self) -> bool:
        """Whether it is served with TLS."""
        return bool(self.cert)


@dataclass(frozen=True)
class ServedPage:
    """A running page: its address and its token."""

    address: str
    """Without the token."""
    token: str
    token_file: Path

    @property
    def link(self) -> str:
        """The address for a browser; the part after `#` is not sent to the server, so no log has it."""
        return f"{self.address}/#token={self.token}"

    def format_address(self, *, terminal: bool) -> str:
        """How to open it. What is not a terminal may be a journal that others read, so it does not get the token."""
        return self.link if terminal else f"{self.address}/ (the token is in {self.token_file})"


class _Server(uvicorn.Server):
    def install_signal_handlers(self) -> None:
        """Leave signals to the command."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """The same, for newer versions of uvicorn."""
        yield


@contextmanager
def serve(storage: str, endpoint: Endpoint = Endpoint(), *, only: str = "", token: str = "") -> Iterator[ServedPage]:  # noqa: B008
    """Serve the page in a thread while the block runs, with a new token unless one is given."""
    token = token or new_token()
    listener = _listen(endpoint)
    page = app(storage, token, only=only, names=endpoint.names, secure=endpoint.secure)
    config = uvicorn.Config(
        page,
        http=RequestTimeoutProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        # Uvicorn only warns about malformed requests; the guard logs our own failures.
        log_level="critical",
        access_log=False,
        server_header=False,
        limit_concurrency=_HARD_MAX_CONNECTIONS,
        h11_max_incomplete_event_size=_HEADER_BYTES,
        timeout_keep_alive=int(_REQUEST_TIMEOUT_SECONDS),
        timeout_graceful_shutdown=2,
        ssl_certfile=endpoint.cert or None,
        ssl_keyfile=endpoint.key or None,
    )
    server = _Server(config)
    thread = threading.Thread(target=server.run, args=([listener],), name="page", daemon=True)
    thread.start()
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    scheme = "https" if endpoint.secure else "http"
    port = listener.getsockname()[1]
    try:
        with token_file(storage, port, token) as file:
            yield ServedPage(f"{scheme}://{host}:{port}", token, file)
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


def _listen(endpoint: Endpoint) -> socket.socket:
    family = socket.AF_INET6 if ":" in endpoint.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((endpoint.host, endpoint.port))
    except OSError as error:
        listener.close()
        problem = f"port {endpoint.port} of {endpoint.host} cannot be used: {error.strerror}"
        raise CallError(f"{problem}; give another {endpoint.port_option}, or 0 for any free one") from error
    listener.listen(128)
    return listener
