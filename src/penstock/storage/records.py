"""The small JSON files of a storage, each with a checksum over its content and its place: no damage goes unnoticed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from penstock.errors import PenstockError
from penstock.storage import files


class RecordError(PenstockError):
    """A file of the storage is not what was written."""

    def __init__(self, url: str, says: str, fix: str) -> None:
        self.says, self.fix = f"{url} is damaged: {says}", fix
        super().__init__(f"{self.says}; {fix}")


def digest(content: bytes) -> str:
    """The checksum that records carry."""
    return hashlib.sha256(content).hexdigest()


def write_record(url: str, values: Mapping[str, Any]) -> None:
    """Replace a record; on the disk when this returns."""
    files.write_atomic(url, json.dumps({"record": values, "sum": _sum(url, values)}))


def read_record(url: str, fix: str) -> dict[str, Any] | None:
    """What was written, None if nothing was; a RecordError with the remedy `fix` if it has changed since.

    Release 0.1 wrote most of them without a checksum: those are taken as they are.
    """
    content = files.read(url)
    if content is None:
        return None
    try:
        found = json.loads(content)
        if not isinstance(found, dict):
            raise ValueError("not a JSON object")
        if "sum" not in found:
            return found
        values: dict[str, Any] = found["record"]
        # Release 0.1 did not include the place.
        if found["sum"] not in (_sum(url, values), _sum("", values)):
            raise ValueError("its checksum differs")
    except (ValueError, KeyError, TypeError) as error:
        raise RecordError(url, str(error), fix) from error
    return values


def _sum(url: str, values: Mapping[str, Any]) -> str:
    """Includes the name and its folder: a record that was copied over another one is noticed."""
    place = "/".join(url.split("/")[-2:]) if url else ""
    return digest((place + json.dumps(values, sort_keys=True)).encode())
