"""What a file says about the pipeline as a whole: name, storage, Spark's settings, tests."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.load.reading import Reading, as_text
from penstock.model import Keys, Location
from penstock.options import Secret
from penstock.words import shown

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SECRET = re.compile(r"password|secret|token|credential|account\.key", re.IGNORECASE)
_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?([kKmMgGtT]?)B")
_NO_SECRET = re.compile(r"(provider|enabled)$", re.IGNORECASE)


class Case(dict[str, Any]):
    """One test of a pipeline, as the file says it, and where."""

    at: Location


def read_name(reading: Reading) -> str:
    """`name`, or the file's own."""
    given = reading.document.values.get("name")
    name = Path(reading.document.file).stem if given is None else given
    if isinstance(name, str) and _NAME.fullmatch(name):
        return name
    whose = "the name" if given is not None else "the file's name"
    fix = "use letters, digits, '_' and '-', at most 64" if given is not None else "add 'name: ...'"
    reading.found("name", ("name",), f"{whose} {shown(name)} cannot name a pipeline", fix)
    return ""


def read_storage(reading: Reading) -> str:
    """`storage`, or nothing."""
    storage = reading.document.values.get("storage")
    if storage is None or (isinstance(storage, str) and storage.strip()):
        return storage or ""
    says = f"'storage' is {shown(storage)}, expected a folder or a URL"
    reading.found("wrong-type", ("storage",), says, "write 'storage: /data/penstock'")
    return ""


def read_watermarks(reading: Reading) -> dict[str, str]:
    """`watermarks: min | max`, which of several watermarks counts, as the setting that Spark has for it."""
    policy = reading.document.values.get("watermarks")
    if policy in (None, "min", "max"):
        return {"spark.sql.streaming.multipleWatermarkPolicy": policy} if policy else {}
    says = f"'watermarks' is {shown(policy)}, expected min or max"
    fix = "min waits for the slowest source, max follows the fastest and drops what the others bring late"
    reading.found("wrong-type", ("watermarks",), says, fix)
    return {}


def read_state_limit(reading: Reading) -> int:
    """`state_limit: 2 GB` in bytes, or 0."""
    limit = reading.document.values.get("state_limit")
    if limit is None:
        return 0
    match = _SIZE.fullmatch(str(limit).strip())
    if match:
        return int(float(match[1]) * 1000 ** ("", "k", "m", "g", "t").index(match[2].lower()))
    reading.found("wrong-type", ("state_limit",), f"'state_limit' is {shown(limit)}, expected a size", "write '2 GB'")
    return 0


def read_spark(reading: Reading) -> dict[str, str]:
    """Spark's settings as text, without secrets."""
    raw = reading.document.values.get("spark")
    if raw is None:
        return {}
    if not isinstance(raw, Mapping):
        says = f"'spark' is {shown(raw)}, expected a mapping of settings"
        reading.found("wrong-type", ("spark",), says, "write 'spark: {spark.sql.shuffle.partitions: 8}'")
        return {}
    for key, value in raw.items():
        _check_setting(reading, str(key), value)
    return {str(key): as_text(value) for key, value in raw.items()}


def _check_setting(reading: Reading, key: str, value: Any) -> None:
    keys: Keys = ("spark", key)
    if isinstance(value, Secret) or (_SECRET.search(key) and not _NO_SECRET.search(key)):
        says = f"the Spark setting {key!r} holds a secret, and settings show in the list of processes"
        reading.found(
            "spark-secret", keys, says, "put it in spark-defaults.conf, or where the system itself looks for it"
        )
    elif value is None or isinstance(value, dict | list):
        reading.found("wrong-type", keys, f"the Spark setting {key!r} is {shown(value)}, expected one value")
    elif key != "master" and not key.startswith("spark."):
        says = f"the Spark setting {key!r} does not start with 'spark.', so Spark would ignore it"
        reading.found("spark-setting", keys, says, f"write 'spark.{key}', or 'master' for where Spark runs")


def read_tests(reading: Reading) -> tuple[Case, ...]:
    """The tests in the file."""
    raw = reading.document.values.get("tests")
    if raw is None:
        return ()
    if not isinstance(raw, list | tuple):
        says = f"'tests' is {shown(raw)}, expected a list of tests"
        reading.found("wrong-type", ("tests",), says, "write '- name: ...' below it")
        return ()
    return tuple(case for at, each in enumerate(raw) if (case := _case(reading, each, ("tests", at))) is not None)


def _case(reading: Reading, raw: Any, keys: Keys) -> Case | None:
    if not isinstance(raw, Mapping):
        says = f"a test is {shown(raw)}, expected a mapping"
        reading.found("wrong-type", keys, says, "write 'name', 'given' and 'expect'")
        return None
    case = Case(raw)
    case.at = reading.document.place(keys)
    return case
