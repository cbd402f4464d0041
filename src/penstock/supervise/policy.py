"""When to start again, as arithmetic: no clock, no process."""

from __future__ import annotations

import random
import statistics
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from penstock.model import Restart


@dataclass
class Restarts:
    """The restarts of one pipeline so far, and what its policy makes of the next one."""

    policy: Restart
    chance: Callable[[], float] = random.random
    _at: list[float] = field(default_factory=list)
    _in_a_row: int = 0

    @property
    def count(self) -> int:
        """How many restarts count against the limit."""
        return len(self._at)

    def wait_seconds(self, now: float, ran_seconds: float) -> float | None:
        """How long to wait before the next start after a run of `ran_seconds`; None to give up."""
        if ran_seconds >= self.policy.healthy_seconds:
            self._at, self._in_a_row = [], 0
        self._at = [moment for moment in self._at if now - moment < self.policy.within_seconds]
        if len(self._at) >= self.policy.limit:
            return None
        self._at.append(now)
        wait = min(self.policy.backoff_seconds * 2.0**self._in_a_row, self.policy.most_seconds)
        self._in_a_row += 1
        # Apart: pipelines that one broker's fall has ended do not come back in the same second.
        return wait * (1 + self.policy.jitter * (2 * self.chance() - 1))


_REMEMBERED = 20
SILENT_SECONDS = 60.0
"""A driver beats every second; one that has not for so long is stuck."""


@dataclass
class Watchdog:
    """What is usual for each query, and what is not."""

    policy: Restart
    silent_seconds: float = SILENT_SECONDS
    _usual: dict[str, deque[float]] = field(default_factory=lambda: defaultdict(lambda: deque(maxlen=_REMEMBERED)))
    _last_beat: float | None = None

    def batch(self, query: str, seconds: float) -> None:
        """A batch took so long."""
        self._usual[query].append(seconds)

    def beat(self, now: float) -> None:
        """The driver shows that it lives."""
        self._last_beat = now

    def most_seconds(self, query: str) -> float:
        """How long a batch of this query may take."""
        known = self._usual.get(query)
        usual = statistics.median(known) if known else 0.0
        return max(self.policy.stalled_seconds, self.policy.stalled_times * usual)

    def complaint(self, now: float, busy: Mapping[str, float]) -> str:
        """What has stopped moving; '' if nothing has. `busy` says for how long each query has been in its batch."""
        if self._last_beat is not None and now - self._last_beat > self.silent_seconds:
            return f"the driver has not been heard of for {now - self._last_beat:.0f} s"
        for query, seconds in busy.items():
            if seconds > self.most_seconds(query):
                return f"the query {query!r} has not finished a batch for {seconds:.0f} s"
        return ""
