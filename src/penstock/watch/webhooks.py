"""Events posted to addresses of the user, from a thread that reads the event log: the pipeline never waits for it."""

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

from penstock.events import Event, EventTail
from penstock.model import Webhook
from penstock.redaction import redact, redacted
from penstock.watch.snapshot import snapshot
from penstock.watch.status import told

#: What is posted when the file does not say.
USUAL = ("failed", "restarting", "query_restarting", "gave_up", "lease_lost", "missed", "gap", "state_limit")
_LOOK_SECONDS = 0.5
_MOST_WAITING = 1000
_TRIES = 5
_FIRST_WAIT_SECONDS = 1.0
_TIMEOUT_SECONDS = 10.0
_LAST_SECONDS = 5.0
_MOST_ROWS = 100

Say = Callable[[str], None]
Post = Callable[[str, bytes], None]


def body(hook: Webhook, pipeline: str, events: list[Event]) -> Any:
    """What one request carries: events, a text for Slack, or flat rows as Power BI takes them."""
    if hook.body == "slack":
        return {"text": "\n".join(f"{pipeline}: {told(event)}" for event in events)}
    if hook.body == "rows":
        return [_row(pipeline, event) for event in events]
    return [{"pipeline": pipeline, **event} for event in events]


def _row(pipeline: str, event: Event) -> dict[str, Any]:
    """An event without anything nested in it."""
    row: dict[str, Any] = {"pipeline": pipeline, "at": event["at"], "what": event["what"]}
    if event["what"] != "batch":
        return {**row, "says": told(event)}
    seen = snapshot(event["progress"])
    return {
        **row,
        "sink": seen.query,
        "batch": seen.batch,
        "rows_in": seen.rows_in,
        "rows_per_second": round(seen.rows_per_second, 3),
        "seconds": seen.seconds,
        "watermark": seen.watermark,
        "state_rows": seen.state_rows,
        "late_rows": seen.late_rows,
        "bad_records": seen.bad,
    }


class Refused(Exception):  # noqa: N818  it is an answer, and never leaves this file
    """The address answered that the same request would be refused again."""


def post(url: str, data: bytes) -> None:
    """One request; Refused or OSError unless it was taken."""
    request = urllib.request.Request(url, data, {"content-type": "application/json", "user-agent": "penstock"})  # noqa: S310  http and https only, checked when the file is loaded
    try:
        with _opener.open(request, timeout=_TIMEOUT_SECONDS):
            return
    except urllib.error.HTTPError as error:
        if error.code == 429 or error.code >= 500:
            raise OSError(f"it answers {error.code}") from error
        raise Refused(f"it answers {error.code}") from error


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """An address that sends us elsewhere could send us anywhere."""


_opener = urllib.request.build_opener(_NoRedirect)


@dataclass
class Sender:
    """Posts to one address, in order, again after failures; what is too much is left out and said."""

    hook: Webhook
    pipeline: str
    say: Say
    post: Post = post
    pause: Callable[[float], bool] = lambda _seconds: False
    """Waits so long; True if it is to stop trying."""
    left_out: int = 0
    _waiting: deque[Event] = field(default_factory=lambda: deque(maxlen=_MOST_WAITING))

    def take(self, event: Event) -> None:
        """Remember an event that is asked for; the oldest goes when there are too many."""
        if event["what"] not in (self.hook.events or USUAL):
            return
        self.left_out += len(self._waiting) == _MOST_WAITING
        self._waiting.append(event)

    def send(self) -> None:
        """Post what waits, if anything does."""
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(_MOST_ROWS, len(self._waiting)))]
            data = json.dumps(redacted(body(self.hook, self.pipeline, batch)), default=str).encode()
            if not self._tried(data):
                self.left_out += len(batch)
            if self.left_out:
                self.say(f"{self.hook.at}: the webhook has not got {self.left_out:,} events")
                self.left_out = 0

    def _tried(self, data: bytes) -> bool:
        for number in range(_TRIES):
            try:
                self.post(self.hook.url, data)
                return True
            except Refused as error:
                self.say(redact(f"{self.hook.at}: the webhook is refused: {error}; check its url and body"))
                return False
            except OSError as error:
                problem = redact(f"{self.hook.at}: the webhook cannot be reached: {error}")
                if number + 1 == _TRIES or self.pause(_FIRST_WAIT_SECONDS * 2**number):
                    self.say(problem)
                    return False
        return False


@contextmanager
def posting(hooks: tuple[Webhook, ...], pipeline: str, folder: str, say: Say) -> Iterator[None]:
    """Post what is written to an event log from now until this ends, and what is still waiting then, for a moment."""
    if not hooks:
        yield
        return
    ending = threading.Event()
    threads = [_Poster(Sender(hook, pipeline, say, pause=ending.wait), EventTail(folder), ending) for hook in hooks]
    for thread in threads:
        thread.following.skip_to_end()
        thread.start()
    try:
        yield
    finally:
        ending.set()
        deadline = time.monotonic() + _LAST_SECONDS
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))


class _Poster(threading.Thread):
    """One address's own thread: a slow one holds up nobody else."""

    def __init__(self, sender: Sender, following: EventTail, ending: threading.Event) -> None:
        super().__init__(name="webhook", daemon=True)
        self.sender, self.following, self.ending = sender, following, ending

    def run(self) -> None:
        """Look, send, wait."""
        last = False
        while not last:
            # Asked before the last look: what was written until the end is still posted.
            last = self.ending.wait(_LOOK_SECONDS)
            for event in self.following.new():
                self.sender.take(event)
            self.sender.send()
