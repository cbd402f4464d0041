"""How long to wait before trying again, as arithmetic."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime


@dataclass(frozen=True)
class Backoff:
    """Twice as long after each failure in a row, with jitter so that many clients do not come back together."""

    first_seconds: float = 1.0
    longest_seconds: float = 60.0

    def wait_seconds(self, failures: int, luck: float) -> float:
        """After so many failures in a row; `luck` between 0 and 1 takes up to half of it off."""
        whole = min(self.first_seconds * 2.0 ** min(failures - 1, 60), self.longest_seconds)
        return whole * (1 - luck / 2)


def retry_after(text: str | None, now: float) -> float | None:
    """The seconds that a `Retry-After` asks for, given as a number or as a date; None if it says nothing we know."""
    if not text:
        return None
    try:
        found = float(text)
    except ValueError:
        try:
            moment = parsedate_to_datetime(text)
        except ValueError:
            return None
        zoned = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
        found = zoned.timestamp() - now
    return max(0.0, found) if math.isfinite(found) else None


def utc_now() -> float:
    """Seconds since 1970."""
    return datetime.now(timezone.utc).timestamp()
