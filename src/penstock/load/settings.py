"""What a file says about the pipeline as a whole: name, storage, Spark's settings, tests."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator

from penstock.load.reading import Reader, as_text
from penstock.load.validate import read_options
from penstock.model import Keys, Location, Restart, Webhook
from penstock.options import Duration, Names, Options, Secret, seconds
from penstock.text import show

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SECRET = re.compile(r"password|secret|token|credential|account\.key", re.IGNORECASE)
_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?([kKmMgGtT]?)B")
_NO_SECRET = re.compile(r"(provider|enabled)$", re.IGNORECASE)


class Case(dict[str, Any]):
    """One test of a pipeline, as the file says it, and where."""

    at: Location


def read_name(reading: Reader) -> str:
    """`name`, or the file's own."""
    given = reading.document.values.get("name")
    name = Path(reading.document.file).stem if given is None else given
    if isinstance(name, str) and _NAME.fullmatch(name):
        return name
    whose = "the name" if given is not None else "the file's name"
    fix = "use letters, digits, '_' and '-', at most 64" if given is not None else "add 'name: ...'"
    reading.found("name", ("name",), f"{whose} {show(name)} cannot name a pipeline", fix)
    return ""


def read_storage(reading: Reader) -> str:
    """`storage`, or nothing."""
    storage = reading.document.values.get("storage")
    if storage is None or (isinstance(storage, str) and storage.strip()):
        return storage or ""
    says = f"'storage' is {show(storage)}, expected a folder or a URL"
    reading.found("wrong-type", ("storage",), says, "write 'storage: /data/penstock'")
    return ""


def read_watermarks(reading: Reader) -> dict[str, str]:
    """`watermarks: min | max`, which of several watermarks counts, as the setting that Spark has for it."""
    policy = reading.document.values.get("watermarks")
    if policy in (None, "min", "max"):
        return {"spark.sql.streaming.multipleWatermarkPolicy": policy} if policy else {}
    says = f"'watermarks' is {show(policy)}, expected min or max"
    fix = "min waits for the slowest source, max follows the fastest and drops what the others bring late"
    reading.found("wrong-type", ("watermarks",), says, fix)
    return {}


def read_state_limit(reading: Reader) -> int:
    """`state_limit: 2 GB` in bytes, or 0."""
    limit = reading.document.values.get("state_limit")
    if limit is None:
        return 0
    match = _SIZE.fullmatch(str(limit).strip())
    if match:
        return int(float(match[1]) * 1000 ** ("", "k", "m", "g", "t").index(match[2].lower()))
    reading.found("wrong-type", ("state_limit",), f"'state_limit' is {show(limit)}, expected a size", "write '2 GB'")
    return 0


def read_spark(reading: Reader) -> dict[str, str]:
    """Spark's settings as text, without secrets."""
    raw = reading.document.values.get("spark")
    if raw is None:
        return {}
    if not isinstance(raw, Mapping):
        says = f"'spark' is {show(raw)}, expected a mapping of settings"
        reading.found("wrong-type", ("spark",), says, "write 'spark: {spark.sql.shuffle.partitions: 8}'")
        return {}
    for key, value in raw.items():
        _check_setting(reading, str(key), value)
    return {str(key): as_text(value) for key, value in raw.items()}


def _check_setting(reading: Reader, key: str, value: Any) -> None:
    keys: Keys = ("spark", key)
    if isinstance(value, Secret) or (_SECRET.search(key) and not _NO_SECRET.search(key)):
        says = f"the Spark setting {key!r} holds a secret, and settings show in the list of processes"
        reading.found(
            "spark-secret", keys, says, "put it in spark-defaults.conf, or where the system itself looks for it"
        )
    elif value is None or isinstance(value, dict | list):
        reading.found("wrong-type", keys, f"the Spark setting {key!r} is {show(value)}, expected one value")
    elif key != "master" and not key.startswith("spark."):
        says = f"the Spark setting {key!r} does not start with 'spark.', so Spark would ignore it"
        reading.found("spark-setting", keys, says, f"write 'spark.{key}', or 'master' for where Spark runs")


def read_tests(reading: Reader) -> tuple[Case, ...]:
    """The tests in the file."""
    raw = reading.document.values.get("tests")
    if raw is None:
        return ()
    if not isinstance(raw, list | tuple):
        says = f"'tests' is {show(raw)}, expected a list of tests"
        reading.found("wrong-type", ("tests",), says, "write '- name: ...' below it")
        return ()
    return tuple(case for at, each in enumerate(raw) if (case := _case(reading, each, ("tests", at))) is not None)


def _case(reading: Reader, raw: Any, keys: Keys) -> Case | None:
    if not isinstance(raw, Mapping):
        says = f"a test is {show(raw)}, expected a mapping"
        reading.found("wrong-type", keys, says, "write 'name', 'given' and 'expect'")
        return None
    case = Case(raw)
    case.at = reading.document.place(keys)
    return case


class _Restart(Options):
    limit: int = Field(default=5, ge=0, description="How many restarts in `within` are allowed.")
    within: Duration = Field(default="10 minutes", description="The time that `limit` is about.")
    backoff: Duration = Field(default="1 second", description="The wait before the first restart; it doubles.")
    most: Duration = Field(default="1 minute", description="The longest wait.")
    jitter: float = Field(default=0.2, ge=0, le=1, description="The part of a wait that is left to chance.")
    healthy_after: Duration = Field(default="5 minutes", description="A run of this length forgets what was before.")
    stalled_after: Duration = Field(default="10 minutes", description="A batch may take at least this long.")
    stalled_times: float = Field(default=10.0, ge=1, description="And this many times as long as is usual.")


def read_restart(reading: Reader) -> Restart:
    """The policy in the file, or the usual one."""
    raw = reading.document.values.get("restart")
    if raw is None:
        return Restart()
    if not isinstance(raw, Mapping):
        says = f"'restart' is {show(raw)}, expected a mapping"
        reading.found("wrong-type", ("restart",), says, "write 'restart: {limit: 5, within: 10 minutes}'")
        return Restart()
    given = read_options(reading, _Restart, dict(raw), ("restart",), "'restart'")
    if given is None:
        return Restart()
    return Restart(
        limit=given.limit,
        within_seconds=seconds(given.within),
        backoff_seconds=seconds(given.backoff),
        most_seconds=seconds(given.most),
        jitter=given.jitter,
        healthy_seconds=seconds(given.healthy_after),
        stalled_seconds=seconds(given.stalled_after),
        stalled_times=given.stalled_times,
    )


_LISTENER = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_DEFAULT_SECONDS = 7 * 86_400.0


class _History(Options):
    history: Duration


class _Webhook(Options):
    url: str = Field(description="Where events are posted to.")
    events: Names = Field(default=(), description="Which events; every failure and restart if left out.")
    body: Literal["event", "slack", "rows"] = Field(default="event", description="What is posted.")

    @field_validator("url")
    @classmethod
    def _is_http(cls, url: str) -> str:
        if not re.match(r"https?://[^\s/]+", url):
            raise ValueError("a webhook begins with https:// or http://")
        return url


def read_history(reading: Reader) -> float:
    """`history: 7 days` in seconds."""
    given = reading.document.values.get("history")
    if given is None:
        return _DEFAULT_SECONDS
    read = read_options(reading, _History, {"history": given}, (), "the pipeline")
    return seconds(read.history) if read else _DEFAULT_SECONDS


def read_listeners(reading: Reader) -> tuple[str, ...]:
    """`listeners: ["module:Class"]`."""
    found = []
    for number, each in enumerate(_list(reading, "listeners", '["module:Class"]')):
        if isinstance(each, str) and _LISTENER.fullmatch(each):
            found.append(each)
        else:
            fix = "write 'module:Class', a StreamingQueryListener in a .py file beside this one"
            reading.found("wrong-type", ("listeners", number), f"a listener is {show(each)}", fix)
    return tuple(found)


def read_webhooks(reading: Reader) -> tuple[Webhook, ...]:
    """`webhooks: [{url: ..., events: [...]}]`."""
    made = []
    for number, each in enumerate(_list(reading, "webhooks", "[{url: ...}]")):
        keys: Keys = ("webhooks", number)
        if not isinstance(each, Mapping):
            says = f"a webhook is {show(each)}, expected a mapping"
            reading.found("wrong-type", keys, says, "write '- url: ...'")
            continue
        read = read_options(reading, _Webhook, dict(each), keys, "a webhook")
        if read is not None:
            made.append(Webhook(read.url, reading.document.place(keys), read.events, read.body))
    return tuple(made)


def _list(reading: Reader, key: str, example: str) -> list[Any]:
    given = reading.document.values.get(key)
    if given is None:
        return []
    if isinstance(given, list | tuple):
        return list(given)
    reading.found("wrong-type", (key,), f"'{key}' is {show(given)}, expected a list", f"write '{key}: {example}'")
    return []
