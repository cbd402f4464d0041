"""The recording format: the records of a topic, byte for byte, as JSON lines that can be read, searched and compared.

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
from penstock.feeds.records import Record

_VERSION = 1
_MAGIC = b'{"penstock": "recording"'
_NEXT = "record the topic again"


@dataclass(frozen=True)
class Heading:
    """The first line of a recording."""

    topic: str
    partitions: int


def is_recording(head: bytes) -> bool:
    """Whether a file that starts with these bytes is a recording."""
    return head.startswith(_MAGIC)


def format_heading(heading: Heading) -> bytes:
    """Encode the first line of a recording."""
    fields = {"penstock": "recording", "version": _VERSION, "topic": heading.topic, "partitions": heading.partitions}
    return json.dumps(fields).encode() + b"\n"


def format_record(record: Record, offset: int) -> bytes:
    """Encode a record as a line of a recording."""
    fields: dict[str, Any] = {"partition": record.partition, "offset": offset}
    if record.timestamp is not None:
        fields["timestamp"] = record.timestamp
    fields |= {"key": _encode(record.key), "value": _encode(record.value)}
    if record.headers:
        fields["headers"] = [[name, _encode(value)] for name, value in record.headers]
    return json.dumps(fields, ensure_ascii=False).encode() + b"\n"


def read_heading(path: Path) -> Heading | None:
    """Read the heading of a recording; None for any other file."""
    with path.open("rb") as file:
        head = file.readline(65_536)
    if not is_recording(head):
        return None
    try:
        found = json.loads(head)
        if found["version"] != _VERSION:
            raise CallError(
                f"{path.name} is a recording of version {found['version']}, and this Penstock reads {_VERSION}; {_NEXT}"
            )
        return Heading(str(found["topic"]), int(found["partitions"]))
    except (ValueError, KeyError, TypeError) as error:
        raise CallError(f"{path.name}:1: the recording's first line is damaged; {_NEXT}") from error


def read_records(path: Path) -> Iterator[Record]:
    """Read the records of a recording; a damaged line is an error with its number."""
    read_heading(path)
    with path.open("rb") as file:
        file.readline()
        for number, text in enumerate(file, 2):
            try:
                yield _parse_record(json.loads(text))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise CallError(f"{path.name}:{number}: this line of the recording is damaged; {_NEXT}") from error


def _parse_record(fields: dict[str, Any]) -> Record:
    timestamp = fields.get("timestamp")
    return Record(
        _decode(fields["key"]),
        _decode(fields["value"]),
        None if timestamp is None else timestamp / 1000,
        headers=tuple((str(name), _decode(value)) for name, value in fields.get("headers", ())),
        partition=int(fields["partition"]),
        timestamp=timestamp,
    )


def _encode(value: bytes | None) -> Any:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def _decode(value: Any) -> bytes | None:
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else base64.b64decode(value["base64"], validate=True)
