"""Fields of JSON rows: found by a dotted name, read as times, moved in time, written as JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from datetime import date, datetime, timedelta, timezone
from typing import Any

#: What `field` gives for a name that is not there; None is a value.
MISSING = object()
# Seconds beyond this are in the year 5138: such a number counts milliseconds.
_MILLISECONDS_FROM = 100_000_000_000


def field(row: Mapping[str, Any], name: str) -> Any:
    """A column, or with dots a field inside columns: `user.id`."""
    if name in row:
        return row[name]
    found: Any = row
    for part in name.split("."):
        if not isinstance(found, Mapping) or part not in found:
            return MISSING
        found = found[part]
    return found


def seconds(value: Any) -> float:
    """A time as seconds since 1970: of text, of a number (seconds or milliseconds), of a datetime; ValueError else."""
    if isinstance(value, str) and not value.replace(".", "", 1).lstrip("-").isdigit():
        value = datetime.fromisoformat(value.strip().replace("Z", "+00:00"))
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=timezone.utc)).timestamp()
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("no time")
    number = float(value)
    return number / 1000 if abs(number) >= _MILLISECONDS_FROM else number


def moved(value: bytes, name: str, by_seconds: float) -> bytes:
    """A JSON object with the time in one field moved, written in the way it was: text stays text of the same form."""
    row = json.loads(value)
    inside, last = row, name
    if name not in row:
        *path, last = name.split(".")
        for part in path:
            inside = inside[part]
    inside[last] = _moved(inside[last], by_seconds)
    return encoded(row)


def encoded(row: Mapping[str, Any]) -> bytes:
    """A row as JSON; times as Spark reads them, bytes as base64."""
    return json.dumps(row, default=_plain, ensure_ascii=False).encode()


def key(value: Any) -> bytes | None:
    """A field as a record's key."""
    if value is None or isinstance(value, bytes):
        return value
    return (value if isinstance(value, str) else json.dumps(value, default=_plain, ensure_ascii=False)).encode()


def _moved(value: Any, by_seconds: float) -> Any:
    if not isinstance(value, str):
        later = by_seconds * 1000 if abs(value) >= _MILLISECONDS_FROM else by_seconds
        return round(value + later) if isinstance(value, int) else value + later
    if value.replace(".", "", 1).lstrip("-").isdigit():
        return str(_moved(float(value) if "." in value else int(value), by_seconds))
    zulu, parted = value.endswith("Z"), "T" if "T" in value else " "
    old = datetime.fromisoformat(value.strip().replace("Z", "+00:00"))
    new = (old + timedelta(seconds=by_seconds)).isoformat(parted, "seconds" if not old.microsecond else "auto")
    return new.replace("+00:00", "Z") if zulu else new


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat(" ")
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value.isoformat() if isinstance(value, date) else str(value)
