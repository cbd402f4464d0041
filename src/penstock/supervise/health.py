"""/health and /ready of a supervisor, for whoever watches services."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from penstock.errors import CallError
from penstock.supervise.loop import State

_TIMEOUT_SECONDS = 5.0


@contextmanager
def serving(state: State, host: str, port: int) -> Iterator[None]:
    """Serve the two pages while the block runs."""
    try:
        server = ThreadingHTTPServer((host, port), _handler(state))
    except OSError as error:
        raise CallError(f"--health-port {port} cannot be served on {host}: {error.strerror}; choose another") from error
    server.daemon_threads = True
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
        "queries": {sink: bool(state.queries.get(sink, {}).get("active")) for sink in state.sinks},
    }
    if path == "/health":
        return (200 if state.phase != "ended" else 503), facts
    if path == "/ready":
        return (200 if state.is_ready else 503), facts
    return 404, {"says": "there is /health and /ready"}


def _handler(state: State) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = _TIMEOUT_SECONDS

        def do_GET(self) -> None:
            status, facts = page(state, self.path.partition("?")[0])
            body = json.dumps(facts).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Probes come every few seconds: they are no news."""

    return Handler
