"""The clock of the machine, set back: a trigger with an interval would sleep until it is as late again."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

_NOTICED_SECONDS = 2.0


def _ahead() -> float:
    """How far the clock is ahead of one that nobody can set."""
    return time.time() - time.monotonic()


@dataclass
class Clock:
    """Looked at again and again."""

    _ahead: float = field(default_factory=_ahead)

    def set_back(self) -> float:
        """By how many seconds it was set back since the last look; 0 if it was not."""
        before, self._ahead = self._ahead, _ahead()
        back = before - self._ahead
        return back if back > _NOTICED_SECONDS else 0.0
