"""The record of a feed: a key and a value, as bytes."""

from __future__ import annotations

from typing import NamedTuple

Headers = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """One record to send; `time` is its event time in seconds since 1970."""

    key: bytes | None
    value: bytes | None
    time: float | None = None
    stream: int = 0
    """Which of the feed's streams it belongs to: clicks are the second stream of `ads`."""
    headers: Headers = ()
    partition: int | None = None
    timestamp: int | None = None
    """The Kafka timestamp in milliseconds; None leaves it to the producer."""


#: Yielded by a live stream while it is idle, so that the loop can serve its targets.
NOTHING = Record(None, None, stream=-1)
