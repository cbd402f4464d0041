"""The driver's end of the line: what it is told, and what it reports."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

from penstock.supervise.protocol import Channel
from penstock.text import Waiting


@dataclass(frozen=True)
class StartOrder:
    """The word to start Spark: the lease is held, under this token."""

    lease: str
    token: int
    attempt: int
    files: tuple[int, ...] = ()
    """An open file that holds the lease on this machine, if it can be locked; the JVM keeps it open too."""


@dataclass
class SupervisorChannel:
    """Hears orders in a thread; `wake` is set when there is something to look at."""

    line: Channel
    wake: threading.Event = field(default_factory=threading.Event)
    draining: str = ""
    """Why it is to drain; empty while it is not."""
    orphaned: bool = False
    """Whether the supervisor is dead."""
    _go: StartOrder | None = None
    _heard: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        threading.Thread(target=self._listen, name="orders", daemon=True).start()

    def wait_for_start(self) -> StartOrder | None:
        """The word to go; None if the supervisor is gone or has changed its mind."""
        self._heard.wait()
        return self._go if not self.orphaned else None

    def ask_to_drain(self, why: str) -> None:
        """Finish what is under way, begin nothing more."""
        self.draining = self.draining or why
        self.wake.set()

    def report(self, what: str, **facts: Any) -> None:
        """Tell the supervisor; nobody hears it when that is dead."""
        self.line.send({"what": what, **facts})

    def say(self, text: str) -> None:
        """A line for the user."""
        self.report("waiting" if isinstance(text, Waiting) else "said", text=text)

    def _listen(self) -> None:
        for message, files in self.line.messages():
            if message["order"] == "go":
                self._go = StartOrder(message["lease"], message["token"], message["attempt"], tuple(files))
                self._heard.set()
            else:
                self.ask_to_drain(message["why"])
        self.orphaned = True
        self._heard.set()
        self.ask_to_drain("the supervisor is gone")
