"""What a feed gives: a key and a value, as bytes."""

from __future__ import annotations

from typing import NamedTuple

Headers = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """One record to send; `time` is the second, since 1970, in which it happened."""

    key: bytes | None
    value: bytes | None
    time: float | None = None
    stream: int = 0
    """Which of the feed's streams it belongs to: clicks are the second stream of `ads`."""
    headers: Headers = ()
    partition: int | None = None
    timestamp: int | None = None
    """Kafka's own time of it, in milliseconds; None lets the producer say."""


#: What a live stream gives when it has no record, so that whoever waits for one can look after the rest.
NOTHING = Record(None, None, stream=-1)
