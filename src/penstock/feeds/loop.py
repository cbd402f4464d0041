"""The send loop of a feed: takes slices when they are due, hands them to targets and counts what has arrived."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from penstock.feeds.pace import Pace
from penstock.feeds.records import NOTHING, Record

_POLL_SECONDS = 0.1
_FLUSH_SECONDS = 1.0


class Target(Protocol):
    """A destination of records."""

    @property
    def acked(self) -> int:
        """How many records have arrived, as far as the target can tell."""

    def open(self) -> None:
        """Get ready to send; a socket waits here for its reader."""

    def send(self, records: Sequence[Record]) -> None:
        """Send records; blocks while too many are pending. Called with none periodically, to serve the pending ones."""

    def flush(self) -> None:
        """Wait until everything has arrived; an error if something cannot."""

    def close(self) -> None:
        """Release resources; called after an error too."""


class Clock:
    """The machine's clock; tests replace it."""

    def now(self) -> float:
        """Monotonic seconds."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


def _ignore(_acked: int) -> None:
    pass


@dataclass
class FeedLoop:
    """One run of a feed."""

    targets: Sequence[Target]
    pace: Pace
    for_seconds: float | None = None
    report: Callable[[int], None] = _ignore
    on_flushed: Callable[[], None] | None = None
    """Called about once a second, when everything taken so far has arrived."""
    clock: Clock = field(default_factory=Clock)
    over: bool = False
    _started_at: float | None = None

    @property
    def acked(self) -> int:
        """How many records have arrived, summed over the targets."""
        return sum(target.acked for target in self.targets)

    @property
    def seconds(self) -> float:
        """How long it has been sending, without the wait for a reader to connect."""
        return 0.0 if self._started_at is None else self.clock.now() - self._started_at

    def limit(self, records: Iterator[Record], count: int | None) -> Iterator[Record]:
        """The first `count` records, or those until the time is over; apply it before injecting disorder."""
        taken = 0
        for record in records:
            if self.over:
                return
            yield record
            # Checked before the next record is requested: a live stream may be silent for long.
            taken += record is not NOTHING
            if taken == count:
                return

    def run(self, records: Iterator[Record]) -> int:
        """Send all records; returns how many have arrived."""
        try:
            try:
                for target in self.targets:
                    target.open()
            except KeyboardInterrupt:
                # Interrupted before a reader connected.
                return 0
            try:
                self._send(records)
            except KeyboardInterrupt:
                # Ctrl-C ends an endless feed: what was taken still arrives.
                self.over = True
            for target in self.targets:
                target.flush()
            if self.on_flushed:
                self.on_flushed()
        finally:
            for target in self.targets:
                target.close()
        self.report(self.acked)
        return self.acked

    def _send(self, records: Iterator[Record]) -> None:
        self._started_at = started_at = flushed_at = self.clock.now()
        for due, some in self.pace.slices(records):
            self._wait_until(started_at + due, started_at)
            self._dispatch(some)
            now = self.clock.now()
            self._check_time(now - started_at)
            if self.on_flushed and now - flushed_at >= _FLUSH_SECONDS:
                for target in self.targets:
                    target.flush()
                self.on_flushed()
                flushed_at = now
            self.report(self.acked)

    def _wait_until(self, moment: float, started_at: float) -> None:
        while not self.over and (ahead := moment - self.clock.now()) > 0:
            self.clock.sleep(min(ahead, _POLL_SECONDS))
            self._check_time(self.clock.now() - started_at)
            for target in self.targets:
                target.send(())
            self.report(self.acked)

    def _check_time(self, seconds: float) -> None:
        self.over = self.over or (self.for_seconds is not None and seconds >= self.for_seconds)

    def _dispatch(self, some: Sequence[Record]) -> None:
        if len(self.targets) == 1:
            self.targets[0].send(some)
            return
        for number, target in enumerate(self.targets):
            if mine := [record for record in some if record.stream == number]:
                target.send(mine)
