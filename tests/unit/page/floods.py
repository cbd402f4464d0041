"""Many slow and malformed requests to a server in a separate process whose stderr is kept."""

from __future__ import annotations

import os
import random
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.unit.page.requests import Answer, request

COUNT = 500
HOST = b"Host: 127.0.0.1:%d\r\n"


@dataclass(frozen=True)
class Server:
    """A server under attack."""

    port: int
    process: subprocess.Popen[str]
    errors: Path

    def get(self, path: str, **headers: str | None) -> Answer:
        """One ordinary request."""
        return request(self.port, path, **headers)

    def stop(self) -> str:
        """End the server; everything that it wrote to stderr."""
        assert self.process.poll() is None, self.errors.read_text()
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(60) == 0, self.errors.read_text()
        return self.errors.read_text()


@contextmanager
def server(code: str, folder: Path) -> Iterator[Server]:
    """Run Python code that prints its port, serves, and ends when its stdin is closed."""
    errors = folder / "stderr"
    with errors.open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=folder,
            text=True,
            env={**os.environ, "PYTHONASYNCIODEBUG": "", "PYTHONWARNINGS": "default"},
        )
    assert process.stdout is not None
    try:
        yield Server(int(process.stdout.readline()), process, errors)
    finally:
        process.kill()
        process.wait()


def slow_requests(port: int) -> None:
    """500 connections that send a part of a request: some leave, some break off, the others wait to be cut off."""
    parts = (b"", b"G", b"GET /health HT", b"GET / HTTP/1.1\r\nHost: ", b"POST /login HTTP/1.1\r\n" + HOST % port)
    body = b"POST /login HTTP/1.1\r\n" + HOST % port + b"Content-Type: application/json\r\nContent-Length: 50\r\n\r\n{"
    with ExitStack() as stack:
        held = [stack.enter_context(connect(port)) for _ in range(COUNT)]
        for at, each in enumerate(held):
            send(each, (*parts, body)[at % 6])
        for at, each in enumerate(held):
            if at % 5 == 0:
                each.close()
            elif at % 5 == 1:
                reset(each)
            else:
                drain(each)


def malformed_requests(port: int) -> None:
    """500 requests that are wrong in every way that we know, and in some that chance knows."""
    chance = random.Random(7)
    known = malformed(port)
    for begin in range(0, COUNT, 50):
        with ExitStack() as stack:
            for at in range(begin, begin + 50):
                data = known[at % len(known)]
                each = stack.enter_context(connect(port))
                send(each, data if at < 2 * len(known) else mutated(chance, data))
                if at % 3:
                    stack.callback(drain, each)
                else:
                    reset(each)


def malformed(port: int) -> list[bytes]:
    """Requests that no browser sends."""
    host = HOST % port
    login = b"POST /login HTTP/1.1\r\n" + host + b"Content-Type: application/json\r\n"
    bodies = (
        rb'{"token": "\ud800"}',
        rb'{"token": "\udfff\ud800"}',
        b'{"token": "\xed\xa0\x80"}',
        b"\xff\xfe\x00",
        b"[" * 50_000,
        b'{"token": ' + b"9" * 5000 + b"}",
        b'{"token": {}}',
        b"NaN",
    )
    return [
        *(login + b"Content-Length: %d\r\n\r\n" % len(body) + body for body in bodies),
        b"\r\n\r\n",
        b"\x00" * 100,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(200)),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /health\r\n\r\n",
        b"GET /health HTTP/9.9\r\n" + host + b"\r\n",
        b"GET /health HTTP/1.1.1\r\n" + host + b"\r\n",
        b"GET  /health  HTTP/1.1\r\n" + host + b"\r\n",
        b"BREW / HTTP/1.1\r\n" + host + b"\r\n",
        b"OPTIONS * HTTP/1.1\r\n" + host + b"\r\n",
        b"CONNECT evil:443 HTTP/1.1\r\n" + host + b"\r\n",
        b"GET http://[::1 HTTP/1.1\r\n" + host + b"\r\n",
        b"GET /%ff%fe%00%ed%a0%80 HTTP/1.1\r\n" + host + b"\r\n",
        b"GET /\xed\xa0\x80 HTTP/1.1\r\n" + host + b"\r\n",
        b"GET / HTTP/1.1\r\nHost: \xff\xfe\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: [\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + host + b'Cookie: \xff="\\777; penstock-%d=\xe9\r\n\r\n' % port,
        b"GET /metrics HTTP/1.1\r\n" + host + b"Authorization: Bearer \xe9\xff\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + host + b"No colon\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + host + b": empty\r\n folded\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + host + b"X: " + b"a" * 100_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + host + b"A: b\r\n" * 500 + b"\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n" + host + b"\r\n",
        login + b"Content-Length: -1\r\n\r\n",
        login + b"Content-Length: 1e3\r\n\r\n",
        login + b"Content-Length: \xb2\r\n\r\n",
        login + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n",
        login + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        login + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n",
        login + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhelloooo\r\n",
        login + b"Transfer-Encoding: gzip\r\n\r\nx",
        login + b"Expect: 100-continue\r\nContent-Length: 3\r\n\r\n{",
        b"GET /health HTTP/1.1\r\n" + host + b"\r\n" + b"GET /health HTTP/1.1\r\n" + host + b"\r\n" + b"\x00\x01",
        b"GET /api/stream HTTP/1.1\r\n" + host + b"Upgrade: websocket\r\nConnection: upgrade\r\n\r\n",
    ]


def mutated(chance: random.Random, data: bytes) -> bytes:
    """The same with a few bytes of chance in it."""
    changed = bytearray(data[:2000])
    for _ in range(chance.randint(1, 8)):
        changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed)


def connect(port: int) -> socket.socket:
    """A connection; the time limit is for a server that hangs."""
    return socket.create_connection(("127.0.0.1", port), timeout=60)


def send(connection: socket.socket, data: bytes) -> None:
    """All of it, unless the server has had enough."""
    try:
        connection.sendall(data)
    except ConnectionError:
        return


def drain(connection: socket.socket) -> None:
    """Read until the server closes."""
    try:
        while connection.recv(65_536):
            pass
    except ConnectionError:
        return


def reset(connection: socket.socket) -> None:
    """Leave with RST instead of FIN, as a client that was killed does."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
