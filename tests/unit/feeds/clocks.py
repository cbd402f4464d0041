"""Test doubles: a clock and a target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from penstock.feeds import Record


@dataclass
class FakeClock:
    """A clock that advances only by sleeping."""

    seconds: float = 100.0
    waits: list[float] = field(default_factory=list)

    def now(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.seconds += seconds


@dataclass
class FakeTarget:
    """A target that stores what it receives, with the second of arrival."""

    clock: FakeClock
    got: list[tuple[float, Record]] = field(default_factory=list)
    state: list[str] = field(default_factory=list)
    cost_seconds: float = 0.0

    @property
    def acked(self) -> int:
        return len(self.got)

    def open(self) -> None:
        self.state.append("open")

    def send(self, records: Sequence[Record]) -> None:
        self.got += [(round(self.clock.seconds - 100, 3), record) for record in records]
        self.clock.seconds += self.cost_seconds * len(records)

    def flush(self) -> None:
        self.state.append("flush")

    def close(self) -> None:
        self.state.append("close")
