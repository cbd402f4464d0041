"""Exponential backoff and `Retry-After`, as arithmetic."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime


@dataclass(frozen=True)
class Backoff:
    """Doubles after each consecutive failure, with jitter so that clients do not reconnect together."""

    first_seconds: float = 1.0
    longest_seconds: float = 60.0

    def wait_seconds(self, failures: int, jitter: float) -> float:
        """The wait after that many consecutive failures; `jitter` between 0 and 1 takes off up to half."""
        whole = min(self.first_seconds * 2.0 ** min(failures - 1, 60), self.longest_seconds)
        return whole * (1 - jitter / 2)


def parse_retry_after(text: str | None, now: float) -> float | None:
    """The seconds that a `Retry-After` header asks for, as a number or a date; None if it is absent or malformed."""
    if not text:
        return None
    try:
        wait_seconds = float(text)
    except ValueError:
        try:
            when = parsedate_to_datetime(text)
        except ValueError:
            return None
        zoned = when if when.tzinfo else when.replace(tzinfo=timezone.utc)
        wait_seconds = zoned.timestamp() - now
    return max(0.0, wait_seconds) if math.isfinite(wait_seconds) else None


def utc_now() -> float:
    """The current time in seconds since 1970."""
    return datetime.now(timezone.utc).timestamp()
