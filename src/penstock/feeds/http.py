"""Reads a long-lived HTTP stream of JSON lines, as social-media APIs serve it: reconnects, resumes, deduplicates.

connected ──line── line ── (blank: heartbeat) ── line ──╳ silence, drop, 429, 503
    ▲                                                   │ wait: 1 s, 2 s, 4 s ... a minute, with jitter, or Retry-After
    └───────────────────── since_id=LAST ───────────────┘
"""

from __future__ import annotations

import http.client
import ipaddress
import json
import math
import random
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit

from penstock.errors import CallError, PenstockError, RefusedError, UnreachableError
from penstock.feeds import records as rows
from penstock.feeds.loop import Clock
from penstock.feeds.records import NOTHING, Record
from penstock.options import Secret

_MAX_SEEN_IDS = 100_000
_TICK_SECONDS = 0.2


@dataclass(frozen=True)
class Backoff:
    """Doubles after each consecutive failure, with jitter so that clients do not reconnect together."""

    first_seconds: float = 1.0
    longest_seconds: float = 60.0

    def wait_seconds(self, failures: int, jitter: float) -> float:
        """The wait after that many consecutive failures; `jitter` between 0 and 1 takes off up to half."""
        whole = min(self.first_seconds * 2.0 ** min(failures - 1, 60), self.longest_seconds)
        return whole * (1 - jitter / 2)


def parse_retry_after(text: str | None, now: float) -> float | None:
    """The seconds that a `Retry-After` header asks for, as a number or a date; None if it is absent or malformed."""
    if not text:
        return None
    try:
        wait_seconds = float(text)
    except ValueError:
        try:
            when = parsedate_to_datetime(text)
        except ValueError:
            return None
        zoned = when if when.tzinfo else when.replace(tzinfo=timezone.utc)
        wait_seconds = zoned.timestamp() - now
    return max(0.0, wait_seconds) if math.isfinite(wait_seconds) else None


def utc_now() -> float:
    """The current time in seconds since 1970."""
    return datetime.now(timezone.utc).timestamp()


@dataclass(frozen=True)
class Resume:
    """How to ask the server to continue after the last record."""

    field: str | None = None
    """The field of a record that identifies it."""
    parameter: str | None = None
    """The query parameter for the last record's field: since_id."""
    backfill: str | None = None
    """The query parameter for the minutes missed: backfill_minutes."""
    max_backfill_minutes: int = 5
    file: Path | None = None
    """Stores the field of the last record that has arrived, for the next start."""


@dataclass
class HttpStream:
    """The records of a URL. An invalid JSON line is a record too: the pipeline decides what to do with it.

    A record whose `resume.field` is among the last 100,000 is skipped, which covers what a server repeats after a
    reconnect. After a restart of the feed, records since the last saved position may be sent again.
    """

    url: str
    print_status: Callable[[str], None]
    token: Secret | None = None
    heartbeat_seconds: float = 30.0
    resume: Resume = field(default_factory=Resume)
    key_field: str | None = None
    retries: int | None = None
    for_seconds: float | None = None
    backoff: Backoff = field(default_factory=Backoff)
    clock: Clock = field(default_factory=Clock)
    last: str | None = None
    skipped: int = 0
    _seen: dict[str, None] = field(default_factory=dict)
    _last_line_at: float | None = None
    _failures: int = 0

    def records(self) -> Iterator[Record]:
        """Records as they arrive, and NOTHING periodically while none does."""
        parts = parse_url(self.url, self.token)
        self.last = self.last or self._load_position()
        ends_at = math.inf if self.for_seconds is None else self.clock.now() + self.for_seconds
        while self.clock.now() < ends_at:
            try:
                # Capped by the remaining time, so that the end does not wait for a heartbeat.
                silence = min(self.heartbeat_seconds, max(0.001, ends_at - self.clock.now()))
                with open_stream(parts, self.token, self._parameters(), silence) as lines:
                    self.print_status(f"connected to {parts.hostname}")
                    for line in lines:
                        self._failures, self._last_line_at = 0, self.clock.now()
                        yield self._record(line)
                        if self.clock.now() >= ends_at:
                            return
            except BrokenStreamError as error:
                if self.clock.now() < ends_at:
                    yield from self._wait(error, parts.hostname or "", ends_at)

    def save_position(self) -> None:
        """Store the position of the last record; call it when that record and all before it have arrived."""
        if self.resume.file is None or self.last is None:
            return
        hidden = self.resume.file.with_name(f".{self.resume.file.name}.tmp")
        try:
            hidden.write_text(self.last + "\n", encoding="utf-8")
            hidden.replace(self.resume.file)
        except OSError as error:
            raise PenstockError(f"{self.resume.file} cannot be written: {(error.strerror or '').lower()}") from error

    def _load_position(self) -> str | None:
        file = self.resume.file
        try:
            return file.read_text(encoding="utf-8").strip() or None if file and file.exists() else None
        except (OSError, ValueError) as error:
            raise CallError(f"{file} cannot be read: {error}; correct --resume-file") from error

    def _parameters(self) -> dict[str, str]:
        parameters: dict[str, str] = {}
        if self.resume.parameter and self.last is not None:
            parameters[self.resume.parameter] = self.last
        if self.resume.backfill and self._last_line_at is not None:
            minutes = math.ceil((self.clock.now() - self._last_line_at) / 60)
            parameters[self.resume.backfill] = str(min(max(1, minutes), self.resume.max_backfill_minutes))
        return parameters

    def _record(self, line: bytes) -> Record:
        if not line.strip():
            return NOTHING
        if not self.resume.field and not self.key_field:
            return Record(None, line)
        row = _parse_object(line)
        if self.resume.field and not self._is_new(rows.get_field(row, self.resume.field)):
            self.skipped += 1
            return NOTHING
        key = rows.get_field(row, self.key_field) if self.key_field else None
        return Record(None if key is rows.MISSING else rows.encode_key(key), line)

    def _is_new(self, found: Any) -> bool:
        if found is None or found is rows.MISSING:
            return True
        name = found if isinstance(found, str) else json.dumps(found)
        if name in self._seen:
            return False
        self._seen[name] = None
        if len(self._seen) > _MAX_SEEN_IDS:
            del self._seen[next(iter(self._seen))]
        self.last = name
        return True

    def _wait(self, error: BrokenStreamError, host: str, ends_at: float) -> Iterator[Record]:
        self._failures += 1
        if self.retries is not None and self._failures > self.retries:
            raise UnreachableError(f"{host}: {error}; gave up after {self._failures} failures in a row") from error
        seconds = self.backoff.wait_seconds(self._failures, random.random())  # noqa: S311 - jitter
        # Reconnecting earlier than the server allows would only prolong the ban.
        seconds = max(seconds, error.after_seconds or 0.0)
        self.print_status(f"{host}: {error}; retrying in {seconds:.1f} s")
        until = min(self.clock.now() + seconds, ends_at)
        while (left := until - self.clock.now()) > 0:
            self.clock.sleep(min(left, _TICK_SECONDS))
            yield NOTHING


def _parse_object(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


_CONNECT_SECONDS = 10.0
_MAX_LINE_BYTES = 16_000_000
_MAX_SHOWN_CHARS = 200
_RETRYABLE = (408, 425, 429, 500, 502, 503, 504)


class BrokenStreamError(Exception):
    """The stream ended or could not be opened; retryable, but not before `after_seconds`."""

    def __init__(self, why: str, after_seconds: float | None = None) -> None:
        super().__init__(why)
        self.after_seconds = after_seconds


def parse_url(url: str, token: Secret | None) -> SplitResult:
    """Split a URL; an error if it is invalid or would send a token unencrypted."""
    try:
        parts = urlsplit(url)
        port_is_valid = parts.port is None or parts.port > 0
    except ValueError:
        parts, port_is_valid = SplitResult("", "", "", "", ""), False
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_is_valid:
        raise CallError(f"--http {url!r} is not an address; write http://HOST/PATH or https://HOST/PATH")
    if parts.username or parts.password:
        raise CallError("--http has a user or a password in it; give a token with --token instead")
    if token and parts.scheme == "http" and not _is_loopback(parts.hostname):
        raise CallError(f"--token would be readable on its way to {parts.hostname}; use https://")
    if token and any(not " " < char <= "~" for char in token):
        raise CallError("--token has a blank, a line break or a letter outside ASCII in it; give only the token")
    return parts


@contextmanager
def open_stream(
    parts: SplitResult, token: Secret | None, more: Mapping[str, str], silence_seconds: float
) -> Iterator[Iterator[bytes]]:
    """The lines of a new connection, without line breaks; BrokenStreamError when it ends, for whatever reason."""
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
            # Taken before the response, because `Connection: close` detaches the socket from the connection.
            socket = connection.sock
            response = connection.getresponse()
            _check_status(response, parts)
            socket.settimeout(silence_seconds)
        except TimeoutError as error:
            raise BrokenStreamError(f"no answer within {_CONNECT_SECONDS:.0f} s") from error
        except ssl.SSLCertVerificationError as error:
            raise RefusedError(f"{host}: its certificate is not trusted: {error.verify_message}") from error
        except (OSError, http.client.HTTPException) as error:
            raise BrokenStreamError(_reason(error)) from error
        yield _lines(response, silence_seconds)
    finally:
        if response is not None:
            response.close()
        connection.close()


def _lines(response: http.client.HTTPResponse, silence_seconds: float) -> Iterator[bytes]:
    while True:
        try:
            line = response.readline(_MAX_LINE_BYTES)
        except TimeoutError as error:
            raise BrokenStreamError(f"nothing came for {silence_seconds:.0f} s, not even a heartbeat") from error
        except (OSError, http.client.HTTPException) as error:
            raise BrokenStreamError(f"the connection broke: {_reason(error)}") from error
        if not line.endswith(b"\n"):
            if len(line) >= _MAX_LINE_BYTES:
                raise RefusedError(f"a line of the stream is longer than {_MAX_LINE_BYTES:,} bytes; is it JSON lines?")
            # Bytes after the last line break may be half a record, so they are dropped.
            raise BrokenStreamError("the stream broke off within a record" if line.strip() else "the stream ended")
        yield line.rstrip(b"\r\n")


def _check_status(response: http.client.HTTPResponse, parts: SplitResult) -> None:
    status, answer = response.status, f"{response.status} {response.reason}".strip()
    if status == http.client.OK:
        return
    if status in _RETRYABLE:
        raise BrokenStreamError(f"the server answers {answer}", _retry_wait_seconds(response))
    if 300 <= status < 400:
        where = response.getheader("Location") or "another address"
        raise RefusedError(
            f"{parts.hostname} answers {answer}: the stream is at {where}; give that address if you trust it"
        )
    text = response.read(_MAX_SHOWN_CHARS).decode(errors="replace").strip()
    fix = "look at --token" if status in (401, 403) else "correct the address or its parameters"
    raise RefusedError(f"{parts.hostname} answers {answer}{f' ({text})' if text else ''}; {fix}")


def _retry_wait_seconds(response: http.client.HTTPResponse) -> float | None:
    now = utc_now()
    wait_seconds = parse_retry_after(response.getheader("Retry-After"), now)
    if wait_seconds is not None:
        return wait_seconds
    reset = response.getheader("x-rate-limit-reset") or ""
    return max(0.0, int(reset) - now) if reset.isdigit() else None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _reason(error: Exception) -> str:
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return str(text)[:_MAX_SHOWN_CHARS]
