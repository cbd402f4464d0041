"""When to start again, as arithmetic: no clock, no process."""

from __future__ import annotations

import random
from collections.abc import Callable
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
