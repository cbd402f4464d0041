"""The driver's end of the channel: orders from the supervisor, messages to it."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from penstock.supervise.protocol import Channel
from penstock.text import Waiting

_MAX_QUEUED = 1000
_LAST_SECONDS = 5.0
_KEPT = ("started", "ended")
"""Messages that are never dropped: the supervisor's state follows from them."""


@dataclass(frozen=True)
class StartOrder:
    """The order to start Spark: the supervisor holds the lease under this token, and has checked this pipeline."""

    lease: str
    token: int
    attempt: int
    storage: str
    fingerprint: str
    """Of the pipeline as it was checked; the file may have changed since."""
    files: tuple[int, ...] = ()
    """An open file that holds the lease's lock on this machine, if there is one; the JVM keeps it open too."""


@dataclass
class SupervisorChannel:
    """Receives orders in one thread and sends messages in another; `wake` is set when there is something to look at.

    A supervisor that is stopped reads nothing: messages are queued for it, and the oldest are dropped if there are too
    many, so that batches, journal and lease never wait for it.
    """

    channel: Channel
    wake: threading.Event = field(default_factory=threading.Event)
    draining: str = ""
    """Why the driver is to drain; empty while it is not."""
    is_orphaned: bool = False
    """Whether the supervisor is dead."""
    _order: StartOrder | None = None
    _received: threading.Event = field(default_factory=threading.Event)
    _queued: deque[dict[str, Any]] = field(default_factory=deque)
    _is_sending: bool = False
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def __post_init__(self) -> None:
        threading.Thread(target=self._listen, name="orders", daemon=True).start()
        threading.Thread(target=self._drain_queue, name="messages", daemon=True).start()

    def wait_for_start(self) -> StartOrder | None:
        """The order to start; None if the supervisor is gone or has changed its mind."""
        self._received.wait()
        return self._order if not self.is_orphaned else None

    def request_drain(self, why: str) -> None:
        """Finish the running batches, begin no other."""
        self.draining = self.draining or why
        self.wake.set()

    def send(self, what: str, **facts: Any) -> None:
        """Queue a message for the supervisor; it is lost if the supervisor is dead. The last one, `ended`, is sent."""
        with self._changed:
            if len(self._queued) >= _MAX_QUEUED:
                dropped = next((each for each in self._queued if each["what"] not in _KEPT), self._queued[0])
                self._queued.remove(dropped)
            self._queued.append({"what": what, **facts})
            self._changed.notify_all()
            if what == "ended":
                self._changed.wait_for(lambda: not self._queued and not self._is_sending, _LAST_SECONDS)

    def print_status(self, text: str) -> None:
        """A line for the user."""
        self.send("waiting" if isinstance(text, Waiting) else "status", text=text)

    def _drain_queue(self) -> None:
        while True:
            with self._changed:
                self._is_sending = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._queued)
                message = self._queued.popleft()
                self._is_sending = True
            self.channel.send(message)

    def _listen(self) -> None:
        for message, files in self.channel.messages():
            order = message.pop("order")
            if order == "start":
                self._order = StartOrder(**message, files=tuple(files))
                self._received.set()
            else:
                self.request_drain(message["why"])
        self.is_orphaned = True
        self._received.set()
        self.request_drain("the supervisor is gone")
