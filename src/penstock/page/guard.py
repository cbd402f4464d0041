"""Who may talk to the page: asked by the right name, from the page itself, in a reasonable size.

A browser on this machine can be made to send requests here by any site. So the name that it used must be ours (DNS
rebinding), what it says about where the request comes from must be this page, and changes need more than a cookie.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass
from typing import Any

from h11 import LocalProtocolError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_log = logging.getLogger(__name__)

MOST_BODY_BYTES = 65_536
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


class _RefusedError(Exception):
    def __init__(self, status: int, says: str) -> None:
        self.status, self.says = status, says


@dataclass(frozen=True)
class Guard:
    """Stands before an app and lets through what comes from the page itself."""

    inner: App
    names: tuple[str, ...] = ()
    """Host names besides those of loopback that the page is reached by."""
    secure: bool = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
                return
            await self.inner(scope, receive, send)
            return
        try:
            self._check(scope)
            await self.inner(scope, _counted(receive), _with_headers(send))
        except _RefusedError as refused:
            await _answer(_with_headers(send), refused.status, refused.says)
        except (ClientDisconnect, LocalProtocolError):
            # The client left, or its body was malformed and uvicorn has answered: nobody waits for us.
            return
        except Exception as error:
            # The app has answered 500 already.
            _log.error("the page failed at %s: %s: %s", scope["path"], type(error).__name__, error)

    def _check(self, scope: Scope) -> None:
        headers = _Headers(scope["headers"])
        if scope["method"] not in _METHODS:
            raise _RefusedError(405, "use GET or POST")
        if not scope["path"].startswith("/") or "\x00" in scope["path"]:
            raise _RefusedError(400, "ask for a path of this page")
        hosts = headers.all(b"host")
        if len(hosts) != 1:
            raise _RefusedError(400, "a request names one host")
        if hosts[0] not in self._hosts(scope):
            raise _RefusedError(403, "this page has another name; open it by the address that penstock printed")
        self._check_origin(scope, headers)
        self._check_body(headers)

    def _check_origin(self, scope: Scope, headers: _Headers) -> None:
        scheme = "https" if self.secure else "http"
        ours = {f"{scheme}://{host}" for host in self._hosts(scope)}
        if any(origin not in ours for origin in headers.all(b"origin")):
            raise _RefusedError(403, "only this page itself may ask")
        site = headers.first(b"sec-fetch-site")
        opened = scope["method"] == "GET" and scope["path"] == "/" and headers.first(b"sec-fetch-mode") == "navigate"
        if site in ("cross-site", "same-site") and not opened:
            raise _RefusedError(403, "only this page itself may ask")

    def _check_body(self, headers: _Headers) -> None:
        if headers.first(b"content-encoding") not in ("", "identity"):
            raise _RefusedError(415, "send the body as it is")
        length = headers.first(b"content-length")
        if length and not (length.isdecimal() and len(length) < 10 and int(length) <= MOST_BODY_BYTES):
            raise _RefusedError(413, f"a body has at most {MOST_BODY_BYTES:,} bytes")

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


def _counted(receive: Receive) -> Receive:
    taken = 0

    async def receiving() -> MutableMapping[str, Any]:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > MOST_BODY_BYTES:
            # Raised inside the app, which knows this exception and not ours.
            raise HTTPException(413, f"a body has at most {MOST_BODY_BYTES:,} bytes")
        return message

    return receiving


def _with_headers(send: Send) -> Send:
    async def sending(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            own = [pair for pair in message.get("headers", []) if pair[0].lower() not in dict(HEADERS)]
            message = {**message, "headers": [*own, *HEADERS]}
        await send(message)

    return sending


def log_loop_error(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Failures outside of a request, in one line; clients that leave are no news."""
    error = context.get("exception")
    if not isinstance(error, OSError):
        _log.error("the page failed: %s: %r", context["message"], error)


async def _answer(send: Send, status: int, says: str) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": says.encode()})
