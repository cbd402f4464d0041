"""Handwritten requests over a socket, as an attacker sends them."""

from __future__ import annotations

import socket
from dataclasses import dataclass


@dataclass(frozen=True)
class Answer:
    """A response."""

    status: int
    headers: dict[str, str]
    body: str


def raw(port: int, data: bytes) -> Answer:
    """Send exactly these bytes, and read until the server closes or the body is complete."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(data)
        found = b""
        while b"\r\n\r\n" not in found:
            part = connection.recv(65_536)
            if not part:
                break
            found += part
        head, _, body = found.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        headers = {key.lower(): value.strip() for key, _, value in (line.partition(":") for line in lines[1:])}
        length = int(headers.get("content-length", 0))
        while len(body) < length:
            part = connection.recv(65_536)
            if not part:
                break
            body += part
    return Answer(int(lines[0].split()[1]) if found else 0, headers, body.decode("utf-8", "replace"))


def request(port: int, target: str, method: str = "GET", body: bytes = b"", **headers: str | None) -> Answer:
    """A request with the right Host unless another is given; None omits a header."""
    named = {"host": f"127.0.0.1:{port}", "connection": "close"}
    named |= {"content-length": str(len(body))} if body else {}
    named |= {key.replace("_", "-"): value for key, value in headers.items()}  # type: ignore[misc]
    lines = [f"{key}: {value}" for key, value in named.items() if value is not None]
    return raw(port, "\r\n".join([f"{method} {target} HTTP/1.1", *lines, "", ""]).encode("latin-1") + body)
