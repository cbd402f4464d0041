"""Checks every request before the app sees it: its Host, its Origin and its size.

Any site can make a browser on this machine send requests here. So the Host must be ours (against DNS rebinding), the
Origin must be this page, and POST needs a CSRF token in addition to the cookie.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import os
import secrets
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Iterator, MutableMapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from h11 import LocalProtocolError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from penstock.errors import PenstockError

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_log = logging.getLogger(__name__)

MAX_BODY_BYTES = 65_536
_METHODS = ("GET", "HEAD", "POST")
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)


class _RejectedError(Exception):
    def __init__(self, status: int, message: str) -> None:
        self.status, self.message = status, message


@dataclass(frozen=True)
class Guard:
    """Wraps the app and passes on only requests from the page itself."""

    inner: App
    names: tuple[str, ...] = ()
    """Host names of the page besides those of loopback."""
    secure: bool = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
                return
            await self.inner(scope, receive, send)
            return
        try:
            self._check(scope)
            await self.inner(scope, _limit_body(receive), _add_headers(send))
        except _RejectedError as rejected:
            await _respond(_add_headers(send), rejected.status, rejected.message)
        except (ClientDisconnect, LocalProtocolError):
            # The client disconnected, or sent a malformed body and uvicorn has responded.
            return
        except Exception as error:
            # Starlette has already responded with 500.
            _log.error("the page failed at %s: %s: %s", scope["path"], type(error).__name__, error)

    def _check(self, scope: Scope) -> None:
        headers = _Headers(scope["headers"])
        if scope["method"] not in _METHODS:
            raise _RejectedError(405, "use GET or POST")
        if not scope["path"].startswith("/") or "\x00" in scope["path"]:
            raise _RejectedError(400, "the path is malformed")
        hosts = headers.all(b"host")
        if len(hosts) != 1:
            raise _RejectedError(400, "send exactly one Host header")
        if hosts[0] not in self._hosts(scope):
            raise _RejectedError(403, "unknown host name; open the address that penstock printed")
        self._check_origin(scope, headers)
        self._check_body(headers)

    def _check_origin(self, scope: Scope, headers: _Headers) -> None:
        scheme = "https" if self.secure else "http"
        ours = {f"{scheme}://{host}" for host in self._hosts(scope)}
        if any(origin not in ours for origin in headers.all(b"origin")):
            raise _RejectedError(403, "cross-origin requests are not allowed")
        site = headers.first(b"sec-fetch-site")
        opened = scope["method"] == "GET" and scope["path"] == "/" and headers.first(b"sec-fetch-mode") == "navigate"
        if site in ("cross-site", "same-site") and not opened:
            raise _RejectedError(403, "cross-origin requests are not allowed")

    def _check_body(self, headers: _Headers) -> None:
        if headers.first(b"content-encoding") not in ("", "identity"):
            raise _RejectedError(415, "send the body without an encoding")
        length = headers.first(b"content-length")
        if length and not (length.isdecimal() and len(length) < 10 and int(length) <= MAX_BODY_BYTES):
            raise _RejectedError(413, f"the body exceeds {MAX_BODY_BYTES:,} bytes")

    def _hosts(self, scope: Scope) -> set[str]:
        port = (scope.get("server") or ("", 0))[1]
        return {f"{name}:{port}" for name in (*_LOOPBACK, *self.names)}


@dataclass(frozen=True)
class _Headers:
    raw: Iterable[tuple[bytes, bytes]]

    def all(self, name: bytes) -> list[str]:
        return [value.decode("latin-1").strip().lower() for key, value in self.raw if key.lower() == name]

    def first(self, name: bytes) -> str:
        return next(iter(self.all(name)), "")


def _limit_body(receive: Receive) -> Receive:
    received = 0

    async def receive_part() -> MutableMapping[str, Any]:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > MAX_BODY_BYTES:
            # An exception that the app handles: it is raised inside it.
            raise HTTPException(413, f"the body exceeds {MAX_BODY_BYTES:,} bytes")
        return message

    return receive_part


def _add_headers(send: Send) -> Send:
    async def with_headers(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            own = [pair for pair in message.get("headers", []) if pair[0].lower() not in dict(HEADERS)]
            message = {**message, "headers": [*own, *HEADERS]}
        await send(message)

    return with_headers


def log_loop_error(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log a failure outside a request in one line; disconnects are ignored."""
    error = context.get("exception")
    if not isinstance(error, OSError):
        _log.error("the page failed: %s: %r", context["message"], error)


async def _respond(send: Send, status: int, message: str) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": message.encode()})


_BYTES = 32


class TokenError(PenstockError):
    """The file with the page's token cannot be written."""


def new_token() -> str:
    """256 random bits."""
    return secrets.token_urlsafe(_BYTES)


@contextmanager
def token_file(storage: str, port: int, token: str) -> Iterator[Path]:
    """A file with the token while the block runs; its name has the port, so that Prometheus finds it after a restart.

    It is in the storage, or in a temporary folder if the storage is a URL.
    """
    with ExitStack() as stack:
        folder = Path(storage)
        if "://" in storage:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-page-")))
        file = folder / f"page-token-{port}"
        _write(file, token)
        try:
            yield file
        finally:
            file.unlink(missing_ok=True)


def _write(file: Path, token: str) -> None:
    temporary = file.with_name(f"{file.name}.{secrets.token_hex(8)}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as opened:
            opened.write(token)
        # Replaces a symbolic link of this name instead of following it.
        temporary.replace(file)
    except OSError as error:
        fix = "make that folder writable for this user"
        raise TokenError(f"the page's token cannot be written to {file}: {error.strerror}; {fix}") from error


@dataclass(frozen=True)
class PageToken:
    """The token, and the CSRF token derived from it."""

    value: str

    def matches(self, given: str) -> bool:
        """Whether this is the token; compared in constant time."""
        return hmac.compare_digest(given.encode(), self.value.encode())

    @property
    def csrf(self) -> str:
        """The CSRF token of the page's POST requests; other sites cannot read the response that has it."""
        return hmac.new(self.value.encode(), b"penstock page changes", sha256).hexdigest()

    def matches_csrf(self, given: str) -> bool:
        """Whether this is the CSRF token; compared in constant time."""
        return hmac.compare_digest(given.encode(), self.csrf.encode())
