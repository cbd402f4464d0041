"""A real HTTP server on loopback that does, connection by connection, what a script says."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit


@dataclass
class Visit:
    """One request."""

    query: dict[str, str]
    token: str | None


@dataclass
class Server:
    """The server's address and the requests it got."""

    url: str
    visits: list[Visit] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)


class Answer(BaseHTTPRequestHandler):
    """What a script can do with one connection."""

    protocol_version = "HTTP/1.1"
    place: Server
    script: list[Callable[[Answer], None]]

    def do_GET(self) -> None:
        query = dict(parse_qsl(urlsplit(self.path).query))
        self.place.visits.append(Visit(query, self.headers.get("Authorization")))
        step = self.script[min(len(self.place.visits), len(self.script)) - 1]
        step(self)
        self.close_connection = True

    def log_message(self, *_: Any) -> None:
        """Silence the server's log."""

    def begin(self) -> None:
        """An endless answer, in chunks."""
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def chunk(self, data: bytes) -> None:
        """Some bytes, at once."""
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def refuse(self, status: int, body: bytes = b"", **headers: str) -> None:
        """An answer that is not a stream."""
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)


def tweet(number: int) -> bytes:
    """A line of the stream."""
    return json.dumps({"id": str(number), "user": {"name": f"u{number}"}}).encode() + b"\r\n"


def sends(*chunks: bytes, then: str = "end") -> Callable[[Answer], None]:
    """Send chunks, then `end` the stream well, `drop` the connection, or `stall` until the test is over."""

    def step(answer: Answer) -> None:
        answer.begin()
        for chunk in chunks:
            answer.chunk(chunk)
        if then == "end":
            answer.chunk(b"")
        elif then == "stall":
            answer.place.over.wait(60)

    return step


def refuses(status: int, body: bytes = b"", **headers: str) -> Callable[[Answer], None]:
    """Answer with a status."""
    return lambda answer: answer.refuse(status, body, **headers)


@contextmanager
def serving(*script: Callable[[Answer], None]) -> Iterator[Server]:
    """A server; its last step is repeated for every further connection."""
    place = Server("")
    handler = type("Scripted", (Answer,), {"place": place, "script": list(script)})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    place.url = f"http://127.0.0.1:{server.server_address[1]}/stream"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield place
    finally:
        place.over.set()
        server.shutdown()
        server.server_close()
        thread.join()


def ids(values: Sequence[bytes | None]) -> list[int]:
    """The ids of tweets."""
    return [int(json.loads(value or b"")["id"]) for value in values]
