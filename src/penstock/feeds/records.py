"""The record of a feed: a key and a value, as bytes."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from datetime import date, datetime, timedelta, timezone
from typing import Any, NamedTuple

from penstock.options import parse_time

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


#: The result of `get_field` for a missing name; None is a value.
MISSING = object()
# As seconds this would be the year 5138, so larger numbers are milliseconds.
_MILLISECONDS_FROM = 100_000_000_000


def get_field(row: Mapping[str, Any], name: str) -> Any:
    """The value of a column, or of a nested field by its dotted name: `user.id`."""
    if name in row:
        return row[name]
    found: Any = row
    for part in name.split("."):
        if not isinstance(found, Mapping) or part not in found:
            return MISSING
        found = found[part]
    return found


def epoch_seconds(value: Any) -> float:
    """Convert text, a number (seconds or milliseconds) or a datetime to seconds since 1970; ValueError for the rest."""
    if isinstance(value, str) and not value.replace(".", "", 1).lstrip("-").isdigit():
        value = parse_time(value)
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=timezone.utc)).timestamp()
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("not a time")
    number = float(value)
    return number / 1000 if abs(number) >= _MILLISECONDS_FROM else number


def shift_time(value: bytes, name: str, by_seconds: float) -> bytes:
    """Shift the time in one field of a JSON object, keeping its format."""
    row = json.loads(value)
    inside, last = row, name
    if name not in row:
        *path, last = name.split(".")
        for part in path:
            inside = inside[part]
    inside[last] = _shift(inside[last], by_seconds)
    return encode(row)


def encode(row: Mapping[str, Any]) -> bytes:
    """Encode a row as JSON; times in a format that Spark parses, bytes as base64."""
    return json.dumps(row, default=_to_json, ensure_ascii=False).encode()


def encode_key(value: Any) -> bytes | None:
    """Encode a field as a record's key."""
    if value is None or isinstance(value, bytes):
        return value
    return (value if isinstance(value, str) else json.dumps(value, default=_to_json, ensure_ascii=False)).encode()


def _shift(value: Any, by_seconds: float) -> Any:
    if not isinstance(value, str):
        later = by_seconds * 1000 if abs(value) >= _MILLISECONDS_FROM else by_seconds
        return round(value + later) if isinstance(value, int) else value + later
    if value.replace(".", "", 1).lstrip("-").isdigit():
        return str(_shift(float(value) if "." in value else int(value), by_seconds))
    has_z, separator = value.endswith("Z"), "T" if "T" in value else " "
    old = datetime.fromisoformat(value.strip().replace("Z", "+00:00"))
    new = (old + timedelta(seconds=by_seconds)).isoformat(separator, "seconds" if not old.microsecond else "auto")
    return new.replace("+00:00", "Z") if has_z else new


def _to_json(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat(" ")
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value.isoformat() if isinstance(value, date) else str(value)
