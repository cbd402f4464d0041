"""The one loop of a feed: takes slices at their pace, hands them to targets, and reports what is truly there."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from penstock.feeds.pace import Pace
from penstock.feeds.record import NOTHING, Record

_LOOK_SECONDS = 0.1
_SAFE_SECONDS = 1.0


class Target(Protocol):
    """Where records go."""

    @property
    def acked(self) -> int:
        """How many have arrived, as far as anyone can know."""

    def open(self) -> None:
        """Be ready; a socket waits here for its reader."""

    def send(self, records: Sequence[Record]) -> None:
        """Take records; blocks while too many are under way. Called with none now and then, to look after the rest."""

    def flush(self) -> None:
        """Return when all of them have arrived; an error if one cannot."""

    def close(self) -> None:
        """Let go of what is held, also after an error."""


class Clock:
    """The machine's clock; a test has its own."""

    def now(self) -> float:
        """Seconds that only grow."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


def _nothing(_acked: int) -> None:
    pass


@dataclass
class Feeding:
    """One run of a feed."""

    targets: Sequence[Target]
    pace: Pace
    for_seconds: float | None = None
    report: Callable[[int], None] = _nothing
    safe: Callable[[], None] | None = None
    """Called about once a second, when everything that was taken so far has arrived."""
    clock: Clock = field(default_factory=Clock)
    over: bool = False
    _began: float | None = None

    @property
    def acked(self) -> int:
        """How many records have arrived at all targets together."""
        return sum(target.acked for target in self.targets)

    @property
    def seconds(self) -> float:
        """How long it has been sending: waiting for a reader to connect is not part of it."""
        return 0.0 if self._began is None else self.clock.now() - self._began

    def limited(self, records: Iterator[Record], count: int | None) -> Iterator[Record]:
        """The first records, until the time is over: what is made, before any of it is held back or doubled."""
        taken = 0
        for record in records:
            if self.over:
                return
            yield record
            # Looked at before the next one is asked for: a live stream may be silent for long.
            taken += record is not NOTHING
            if taken == count:
                return

    def run(self, records: Iterator[Record]) -> int:
        """Send them all; how many have arrived."""
        try:
            try:
                for target in self.targets:
                    target.open()
            except KeyboardInterrupt:
                # No reader came.
                return 0
            try:
                self._send(records)
            except KeyboardInterrupt:
                # Ctrl-C is how a feed without end is ended: what was taken still arrives.
                self.over = True
            for target in self.targets:
                target.flush()
            if self.safe:
                self.safe()
        finally:
            for target in self.targets:
                target.close()
        self.report(self.acked)
        return self.acked

    def _send(self, records: Iterator[Record]) -> None:
        self._began = began = safe_at = self.clock.now()
        for due, some in self.pace.slices(records):
            self._wait_until(began + due, began)
            self._hand_out(some)
            now = self.clock.now()
            self._note_time(now - began)
            if self.safe and now - safe_at >= _SAFE_SECONDS:
                for target in self.targets:
                    target.flush()
                self.safe()
                safe_at = now
            self.report(self.acked)

    def _wait_until(self, moment: float, began: float) -> None:
        while not self.over and (ahead := moment - self.clock.now()) > 0:
            self.clock.sleep(min(ahead, _LOOK_SECONDS))
            self._note_time(self.clock.now() - began)
            for target in self.targets:
                target.send(())
            self.report(self.acked)

    def _note_time(self, seconds: float) -> None:
        self.over = self.over or (self.for_seconds is not None and seconds >= self.for_seconds)

    def _hand_out(self, some: Sequence[Record]) -> None:
        if len(self.targets) == 1:
            self.targets[0].send(some)
            return
        for number, target in enumerate(self.targets):
            if mine := [record for record in some if record.stream == number]:
                target.send(mine)
