"""Posts events to webhooks from threads that tail the event log, so that the pipeline never waits for them."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from penstock.events import Event, EventTail, describe, kind_of
from penstock.model import Webhook
from penstock.redaction import redact, redact_values
from penstock.watch.snapshot import snapshot_of

_POLL_SECONDS = 0.5
_MAX_WAITING = 1000
_ATTEMPTS = 5
_FIRST_WAIT_SECONDS = 1.0
_TIMEOUT_SECONDS = 10.0
_FINAL_SECONDS = 5.0
_MAX_EVENTS = 100

PrintStatus = Callable[[str], None]
Post = Callable[[str, bytes], None]


def build_body(hook: Webhook, pipeline: str, events: list[Event]) -> Any:
    """The body of one request: events, a text for Slack, or flat rows for Power BI."""
    if hook.body == "slack":
        return {"text": "\n".join(f"{pipeline}: {describe(event)}" for event in events)}
    if hook.body == "rows":
        return [_row(pipeline, event) for event in events]
    return [{"pipeline": pipeline, **event} for event in events]


def _row(pipeline: str, event: Event) -> dict[str, Any]:
    """An event without nested values."""
    row: dict[str, Any] = {"pipeline": pipeline, "at": event["at"], "what": event["what"]}
    batch = snapshot_of(event)
    if batch is None:
        return {**row, "says": describe(event)}
    return {
        **row,
        "sink": batch.query,
        "batch": batch.batch,
        "rows_in": batch.rows_in,
        "rows_per_second": round(batch.rows_per_second, 3),
        "seconds": batch.seconds,
        "watermark": batch.watermark,
        "state_rows": batch.state_rows,
        "late_rows": batch.late_rows,
        "bad_records": batch.bad,
    }


class RejectedError(Exception):
    """The server rejected the request; a retry would not help."""


def post(url: str, data: bytes) -> None:
    """Send one request; RejectedError or OSError unless it was accepted."""
    request = urllib.request.Request(url, data, {"content-type": "application/json", "user-agent": "penstock"})  # noqa: S310  http and https only, checked when the file is loaded
    try:
        with _opener.open(request, timeout=_TIMEOUT_SECONDS):
            return
    except urllib.error.HTTPError as error:
        if error.code == 429 or error.code >= 500:
            raise OSError(f"it answered {error.code}") from error
        raise RejectedError(f"it answered {error.code}") from error


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Follow no redirect: it could lead to any address."""


_opener = urllib.request.build_opener(_NoRedirect)


@dataclass
class Sender:
    """Posts events to one webhook, in order, with retries; events that it cannot deliver are dropped and counted."""

    hook: Webhook
    pipeline: str
    print_status: PrintStatus
    post: Post = post
    pause: Callable[[float], bool] = lambda _seconds: False
    """Waits for so many seconds; True if it should stop retrying."""
    dropped: int = 0
    _waiting: deque[Event] = field(default_factory=lambda: deque(maxlen=_MAX_WAITING))

    def enqueue(self, event: Event) -> None:
        """Queue an event if the webhook wants it; the oldest is dropped when too many wait."""
        wanted = event["what"] in self.hook.events if self.hook.events else kind_of(event).webhook
        if not wanted:
            return
        self.dropped += len(self._waiting) == _MAX_WAITING
        self._waiting.append(event)

    def send(self) -> None:
        """Post the events that wait."""
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(_MAX_EVENTS, len(self._waiting)))]
            data = json.dumps(redact_values(build_body(self.hook, self.pipeline, batch)), default=str).encode()
            if not self._post_with_retries(data):
                self.dropped += len(batch)
            if self.dropped:
                self.print_status(f"{self.hook.at}: the webhook missed {self.dropped:,} events")
                self.dropped = 0

    def _post_with_retries(self, data: bytes) -> bool:
        for number in range(_ATTEMPTS):
            try:
                self.post(self.hook.url, data)
                return True
            except RejectedError as error:
                self.print_status(
                    redact(f"{self.hook.at}: the webhook rejects the request: {error}; check its url and body")
                )
                return False
            except OSError as error:
                problem = redact(f"{self.hook.at}: the webhook cannot be reached: {error}")
                if number + 1 == _ATTEMPTS or self.pause(_FIRST_WAIT_SECONDS * 2**number):
                    self.print_status(problem)
                    return False
        return False


@contextmanager
def post_events(hooks: tuple[Webhook, ...], pipeline: str, folder: str, print_status: PrintStatus) -> Iterator[None]:
    """Post the events that are appended to a log while the block runs; afterwards the rest, for a few seconds."""
    if not hooks:
        yield
        return
    ending = threading.Event()
    threads = [
        _Poster(Sender(hook, pipeline, print_status, pause=ending.wait), EventTail(folder), ending) for hook in hooks
    ]
    for thread in threads:
        thread.tail.skip_to_end()
        thread.start()
    try:
        yield
    finally:
        ending.set()
        deadline = time.monotonic() + _FINAL_SECONDS
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))


class _Poster(threading.Thread):
    """A thread per webhook, so that a slow one does not delay the others."""

    def __init__(self, sender: Sender, tail: EventTail, ending: threading.Event) -> None:
        super().__init__(name="webhook", daemon=True)
        self.sender, self.tail, self.ending = sender, tail, ending

    def run(self) -> None:
        """Read and send new events until the run ends."""
        last, failure = False, ""
        while not last:
            # Checked before the last read, so that events written until the end are still posted.
            last = self.ending.wait(_POLL_SECONDS)
            try:
                for event in self.tail.read_new():
                    self.sender.enqueue(event)
            except OSError as error:
                # The storage cannot be read now; what it has is read the next time.
                if str(error) != failure:
                    self.sender.print_status(f"{self.sender.hook.at}: the webhook has no events: {error}")
                failure = str(error)
            self.sender.send()
