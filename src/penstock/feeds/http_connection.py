"""One connection to an HTTP stream of lines: what the server answers, and the lines until it breaks."""

from __future__ import annotations

import http.client
import ipaddress
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit

from penstock.errors import CallError, RefusedError
from penstock.feeds.backoff import retry_after, utc_now
from penstock.options import Secret

_CONNECT_SECONDS = 10.0
_MOST_BYTES = 16_000_000
_SHOWN = 200
_LATER = (408, 425, 429, 500, 502, 503, 504)


class BrokenError(Exception):
    """The stream ended or could not be had; trying again can help, not before `after_seconds`."""

    def __init__(self, why: str, after_seconds: float | None = None) -> None:
        super().__init__(why)
        self.after_seconds = after_seconds


def address(url: str, token: Secret | None) -> SplitResult:
    """The URL in parts; an error if it is none, or if a token would travel in the open."""
    try:
        parts = urlsplit(url)
        port_is_one = parts.port is None or parts.port > 0
    except ValueError:
        parts, port_is_one = SplitResult("", "", "", "", ""), False
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_is_one:
        raise CallError(f"--http {url!r} is no address; write http://HOST/PATH or https://HOST/PATH")
    if parts.username or parts.password:
        raise CallError("--http has a user or a password in it; give a token with --token instead")
    if token and parts.scheme == "http" and not _is_loopback(parts.hostname):
        raise CallError(f"--token would be readable on its way to {parts.hostname}; use https://")
    if token and any(not " " < char <= "~" for char in token):
        raise CallError("--token has a blank, a line break or a letter outside ASCII in it; give the token alone")
    return parts


@contextmanager
def connected(
    parts: SplitResult, token: Secret | None, more: Mapping[str, str], silence_seconds: float
) -> Iterator[Iterator[bytes]]:
    """The lines of a new connection, without their line breaks; BrokenError when it ends, whatever the reason."""
    host, port = parts.hostname or "", parts.port
    connection = (
        http.client.HTTPSConnection(host, port, timeout=_CONNECT_SECONDS, context=ssl.create_default_context())
        if parts.scheme == "https"
        else http.client.HTTPConnection(host, port, timeout=_CONNECT_SECONDS)
    )
    response: http.client.HTTPResponse | None = None
    try:
        query = urlencode([*parse_qsl(parts.query, keep_blank_values=True), *more.items()])
        headers = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "penstock"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        try:
            connection.request("GET", (parts.path or "/") + (f"?{query}" if query else ""), headers=headers)
            # Taken before the answer: a connection that ends with its answer lets go of its socket.
            socket = connection.sock
            response = connection.getresponse()
            _judge(response, parts)
            socket.settimeout(silence_seconds)
        except TimeoutError as error:
            raise BrokenError(f"no answer within {_CONNECT_SECONDS:.0f} s") from error
        except ssl.SSLCertVerificationError as error:
            raise RefusedError(f"{host}: its certificate is not trusted: {error.verify_message}") from error
        except (OSError, http.client.HTTPException) as error:
            raise BrokenError(_why(error)) from error
        yield _lines(response, silence_seconds)
    finally:
        if response is not None:
            response.close()
        connection.close()


def _lines(response: http.client.HTTPResponse, silence_seconds: float) -> Iterator[bytes]:
    while True:
        try:
            line = response.readline(_MOST_BYTES)
        except TimeoutError as error:
            raise BrokenError(f"nothing came for {silence_seconds:.0f} s, not even a heartbeat") from error
        except (OSError, http.client.HTTPException) as error:
            raise BrokenError(f"the connection broke: {_why(error)}") from error
        if not line.endswith(b"\n"):
            if len(line) >= _MOST_BYTES:
                raise RefusedError(f"a line of the stream is longer than {_MOST_BYTES:,} bytes; is it JSON lines?")
            # What stands after the last line break may be half of a record: it is not sent.
            raise BrokenError("the stream broke off within a record" if line.strip() else "the stream ended")
        yield line.rstrip(b"\r\n")


def _judge(response: http.client.HTTPResponse, parts: SplitResult) -> None:
    status, said = response.status, f"{response.status} {response.reason}".strip()
    if status == http.client.OK:
        return
    if status in _LATER:
        raise BrokenError(f"the server answers {said}", _asked_to_wait(response))
    if 300 <= status < 400:
        where = response.getheader("Location") or "another address"
        raise RefusedError(
            f"{parts.hostname} answers {said}: the stream is at {where}; give that address if you trust it"
        )
    text = response.read(_SHOWN).decode(errors="replace").strip()
    fix = "look at --token" if status in (401, 403) else "correct the address or its parameters"
    raise RefusedError(f"{parts.hostname} answers {said}{f' ({text})' if text else ''}; {fix}")


def _asked_to_wait(response: http.client.HTTPResponse) -> float | None:
    now = utc_now()
    asked = retry_after(response.getheader("Retry-After"), now)
    if asked is not None:
        return asked
    reset = response.getheader("x-rate-limit-reset") or ""
    return max(0.0, int(reset) - now) if reset.isdigit() else None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _why(error: Exception) -> str:
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return str(text)[:_SHOWN]
