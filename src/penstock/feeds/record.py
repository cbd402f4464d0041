"""What a feed gives: a key and a value, as bytes."""

from __future__ import annotations

from typing import NamedTuple


class Record(NamedTuple):
    """One record to send."""

    key: bytes
    value: bytes
