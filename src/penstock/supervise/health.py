"""/health and /ready of a supervisor, for service monitors."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import logging
import re
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from penstock.errors import CallError
from penstock.supervise.supervisor import State

_TIMEOUT_SECONDS = 5.0
_MAX_CONNECTIONS = 64
_HOST = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9_.-]+))(?::[0-9]+)?")


@contextmanager
def serving(state: State, host: str, port: int, names: tuple[str, ...] = ()) -> Iterator[None]:
    """Serve the two pages while the block runs; `names` are host names that probes may use besides localhost."""
    try:
        server = _Server((host, port), _handler(state, (host, *names)))
    except OSError as error:
        raise CallError(f"--health-port {port} cannot be served on {host}: {error.strerror}; choose another") from error
    threading.Thread(target=server.serve_forever, name="health", daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


def page(state: State, path: str) -> tuple[int, dict[str, Any]]:
    """The status and the facts of a page: /health while there is life, /ready when every declared query is active."""
    facts = {
        "pipeline": state.name,
        "phase": state.phase,
        "restarts": state.restarts,
        "stalled": {sink: told["stalled"] for sink, told in state.queries.items() if "stalled" in told},
        "queries": {sink: bool(state.queries.get(sink, {}).get("active")) for sink in state.sinks},
    }
    if path == "/health":
        return (200 if state.phase != "ended" else 503), facts
    if path == "/ready":
        return (200 if state.is_ready else 503), facts
    return 404, {"says": "there is /health and /ready"}


def refuse_host(hosts: list[str], names: tuple[str, ...]) -> tuple[int, dict[str, Any]] | None:
    """The answer to a request whose Host header is not ours; None if it is.

    Any IP address is accepted: DNS rebinding needs a name, and probes of Kubernetes use the address of the pod.
    """
    if len(hosts) != 1:
        return 400, {"says": f"the request has {len(hosts)} Host headers; send one"}
    match = _HOST.fullmatch(hosts[0].strip())
    name = (match["v6"] or match["name"]).lower() if match else ""
    if name in ("localhost", *(each.lower() for each in names)) or _is_address(name):
        return None
    return 403, {"says": "this host name is not served; use the IP address, or start with --health-name NAME"}


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class _Server(ThreadingHTTPServer):
    """A thread for each connection; their number has a bound, and each is closed after a few seconds."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, *arguments: Any) -> None:
        self._opened: dict[socket.socket, float] = {}
        self._lock = threading.Lock()
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve one connection; the oldest makes room for it."""
        with self._lock:
            if len(self._opened) >= _MAX_CONNECTIONS:
                self._cut(next(iter(self._opened)))
            self._opened[request] = time.monotonic()
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection that was served."""
        with self._lock:
            self._opened.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Twice a second: cut off who takes too long, however steadily the bytes drip."""
        with self._lock:
            oldest_allowed = time.monotonic() - _TIMEOUT_SECONDS
            for request in [each for each, since in self._opened.items() if since < oldest_allowed]:
                self._cut(request)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        """Clients that leave are no news; anything else is our bug, in one line."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            logging.getLogger(__name__).error("the health server failed: %s: %s", type(error).__name__, error)

    def _cut(self, request: socket.socket) -> None:
        """Wake the thread that waits for this client; it closes the connection."""
        del self._opened[request]
        with contextlib.suppress(OSError):
            request.shutdown(socket.SHUT_RDWR)


def _handler(state: State, names: tuple[str, ...]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            refused = refuse_host(self.headers.get_all("Host") or [], names)
            status, facts = refused or page(state, self.path.partition("?")[0])
            body = json.dumps(facts).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Probes come every few seconds: they are no news."""

    return Handler
