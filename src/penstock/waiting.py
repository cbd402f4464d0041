"""Waiting for a condition."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], bool], most_seconds: float, poll_seconds: float = 0.05) -> bool:
    """Wait until a condition holds; False if it does not within this time. It is asked at least once."""
    deadline = time.monotonic() + most_seconds
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(poll_seconds)
    return True
