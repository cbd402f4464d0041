"""A file that holds what a topic carried, byte for byte: JSON lines that can be read, searched and compared.

{"penstock": "recording", "version": 1, "topic": "trades", "partitions": 2}
{"partition": 0, "offset": 17, "timestamp": 1714564800000, "key": "ABX", "value": "...", "headers": [["from", "a"]]}
{"partition": 1, "offset": 4, "timestamp": 1714564800012, "key": null, "value": {"base64": "AAEC"}}
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.errors import CallError
from penstock.feeds.record import Record

_VERSION = 1
_BEGINS = b'{"penstock": "recording"'
_NEXT = "record the topic again"


@dataclass(frozen=True)
class Heading:
    """What a recording says of itself."""

    topic: str
    partitions: int


def is_recording(begins: bytes) -> bool:
    """Whether a file that begins so is a recording."""
    return begins.startswith(_BEGINS)


def first_line(heading: Heading) -> bytes:
    """The first line of a recording."""
    says = {"penstock": "recording", "version": _VERSION, "topic": heading.topic, "partitions": heading.partitions}
    return json.dumps(says).encode() + b"\n"


def line(record: Record, offset: int) -> bytes:
    """A record as a line of a recording."""
    told: dict[str, Any] = {"partition": record.partition, "offset": offset}
    if record.timestamp is not None:
        told["timestamp"] = record.timestamp
    told |= {"key": _told(record.key), "value": _told(record.value)}
    if record.headers:
        told["headers"] = [[name, _told(value)] for name, value in record.headers]
    return json.dumps(told, ensure_ascii=False).encode() + b"\n"


def heading(path: Path) -> Heading | None:
    """What a recording says of itself; None for any other file."""
    with path.open("rb") as file:
        begins = file.readline(65_536)
    if not is_recording(begins):
        return None
    try:
        found = json.loads(begins)
        if found["version"] != _VERSION:
            raise CallError(
                f"{path.name} is a recording of version {found['version']}, and this reads {_VERSION}; {_NEXT}"
            )
        return Heading(str(found["topic"]), int(found["partitions"]))
    except (ValueError, KeyError, TypeError) as error:
        raise CallError(f"{path.name}:1: the recording's first line is damaged; {_NEXT}") from error


def read(path: Path) -> Iterator[Record]:
    """The records of a recording; a damaged line is an error with its number."""
    heading(path)
    with path.open("rb") as file:
        file.readline()
        for number, text in enumerate(file, 2):
            try:
                yield _record(json.loads(text))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise CallError(f"{path.name}:{number}: this line of the recording is damaged; {_NEXT}") from error


def _record(told: dict[str, Any]) -> Record:
    timestamp = told.get("timestamp")
    return Record(
        _bytes(told["key"]),
        _bytes(told["value"]),
        None if timestamp is None else timestamp / 1000,
        headers=tuple((str(name), _bytes(value)) for name, value in told.get("headers", ())),
        partition=int(told["partition"]),
        timestamp=timestamp,
    )


def _told(value: bytes | None) -> Any:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def _bytes(told: Any) -> bytes | None:
    if told is None:
        return None
    return told.encode() if isinstance(told, str) else base64.b64decode(told["base64"], validate=True)
