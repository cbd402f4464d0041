"""Reads the settings of the whole pipeline: name, storage, Spark, tests, restarts, webhooks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator

from penstock.load.reader import Reader, to_text
from penstock.load.validate import read_options
from penstock.model import Keys, Location, Restart, Webhook
from penstock.options import Duration, Names, Options, Secret, seconds
from penstock.text import show

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SECRET = re.compile(r"password|secret|token|credential|account\.key", re.IGNORECASE)
_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?([kKmMgGtT]?)B")
_NOT_SECRET = re.compile(r"(provider|enabled)$", re.IGNORECASE)


class Case(dict[str, Any]):
    """One test of a pipeline as written in the file, with its location."""

    at: Location


def read_name(reader: Reader) -> str:
    """Read `name`; by default the name of the file."""
    given = reader.document.values.get("name")
    name = Path(reader.document.file).stem if given is None else given
    if isinstance(name, str) and _NAME.fullmatch(name):
        return name
    whose = "the name" if given is not None else "the file's name"
    fix = "use letters, digits, '_' and '-', at most 64" if given is not None else "add 'name: ...'"
    reader.report("name", ("name",), f"{whose} {show(name)} cannot name a pipeline", fix)
    return ""


def read_storage(reader: Reader) -> str:
    """Read `storage`; empty if it is not set."""
    storage = reader.document.values.get("storage")
    if storage is None or (isinstance(storage, str) and storage.strip()):
        return storage or ""
    says = f"'storage' is {show(storage)}, expected a folder or a URL"
    reader.report("wrong-type", ("storage",), says, "write 'storage: /data/penstock'")
    return ""


def read_watermarks(reader: Reader) -> dict[str, str]:
    """Read `watermarks: min | max` as Spark's multiple-watermark policy."""
    policy = reader.document.values.get("watermarks")
    if policy in (None, "min", "max"):
        return {"spark.sql.streaming.multipleWatermarkPolicy": policy} if policy else {}
    says = f"'watermarks' is {show(policy)}, expected min or max"
    fix = "min waits for the slowest source, max follows the fastest and drops late rows of the others"
    reader.report("wrong-type", ("watermarks",), says, fix)
    return {}


def read_state_limit(reader: Reader) -> int:
    """Read `state_limit: 2 GB` in bytes; 0 if it is not set."""
    limit = reader.document.values.get("state_limit")
    if limit is None:
        return 0
    match = _SIZE.fullmatch(str(limit).strip())
    if match:
        return int(float(match[1]) * 1000 ** ("", "k", "m", "g", "t").index(match[2].lower()))
    reader.report("wrong-type", ("state_limit",), f"'state_limit' is {show(limit)}, expected a size", "write '2 GB'")
    return 0


def read_spark(reader: Reader) -> dict[str, str]:
    """Read the Spark settings as text; secrets are refused."""
    raw = reader.document.values.get("spark")
    if raw is None:
        return {}
    if not isinstance(raw, Mapping):
        says = f"'spark' is {show(raw)}, expected a mapping of settings"
        reader.report("wrong-type", ("spark",), says, "write 'spark: {spark.sql.shuffle.partitions: 8}'")
        return {}
    for key, value in raw.items():
        _check_setting(reader, str(key), value)
    return {str(key): to_text(value) for key, value in raw.items()}


def _check_setting(reader: Reader, key: str, value: Any) -> None:
    keys: Keys = ("spark", key)
    if isinstance(value, Secret) or (_SECRET.search(key) and not _NOT_SECRET.search(key)):
        says = f"the Spark setting {key!r} holds a secret, and settings are visible in the process list"
        reader.report(
            "spark-secret", keys, says, "put it in spark-defaults.conf, or in the credentials file of the system"
        )
    elif value is None or isinstance(value, dict | list):
        reader.report("wrong-type", keys, f"the Spark setting {key!r} is {show(value)}, expected one value")
    elif key != "master" and not key.startswith("spark."):
        says = f"the Spark setting {key!r} does not start with 'spark.', so Spark would ignore it"
        reader.report("spark-setting", keys, says, f"write 'spark.{key}', or 'master' for where Spark runs")


def read_tests(reader: Reader) -> tuple[Case, ...]:
    """Read the tests in the file."""
    raw = reader.document.values.get("tests")
    if raw is None:
        return ()
    if not isinstance(raw, list | tuple):
        says = f"'tests' is {show(raw)}, expected a list of tests"
        reader.report("wrong-type", ("tests",), says, "write '- name: ...' below it")
        return ()
    return tuple(case for at, each in enumerate(raw) if (case := _read_case(reader, each, ("tests", at))) is not None)


def _read_case(reader: Reader, raw: Any, keys: Keys) -> Case | None:
    if not isinstance(raw, Mapping):
        says = f"a test is {show(raw)}, expected a mapping"
        reader.report("wrong-type", keys, says, "write 'name', 'given' and 'expect'")
        return None
    case = Case(raw)
    case.at = reader.document.place(keys)
    return case


class _Restart(Options):
    limit: int = Field(default=5, ge=0, description="How many restarts are allowed in `within`.")
    within: Duration = Field(default="10 minutes", description="The time window of `limit`.")
    backoff: Duration = Field(default="1 second", description="The wait before the first restart; it doubles.")
    most: Duration = Field(default="1 minute", description="The longest wait.")
    jitter: float = Field(default=0.2, ge=0, le=1, description="The random part of a wait.")
    healthy_after: Duration = Field(
        default="5 minutes", description="A run of this length resets the count of restarts."
    )
    stalled_after: Duration = Field(default="10 minutes", description="A batch may take at least this long.")
    stalled_times: float = Field(default=10.0, ge=1, description="And at least this many times the usual duration.")


def read_restart(reader: Reader) -> Restart:
    """Read the restart policy; by default the usual one."""
    raw = reader.document.values.get("restart")
    if raw is None:
        return Restart()
    if not isinstance(raw, Mapping):
        says = f"'restart' is {show(raw)}, expected a mapping"
        reader.report("wrong-type", ("restart",), says, "write 'restart: {limit: 5, within: 10 minutes}'")
        return Restart()
    given = read_options(reader, _Restart, dict(raw), ("restart",), "'restart'")
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
    url: str = Field(description="The address that events are posted to.")
    events: Names = Field(default=(), description="Which events; by default failures and restarts.")
    body: Literal["event", "slack", "rows"] = Field(default="event", description="The format of the request body.")

    @field_validator("url")
    @classmethod
    def _is_http(cls, url: str) -> str:
        if not re.match(r"https?://[^\s/]+", url):
            raise ValueError("'url' must start with https:// or http://")
        return url


def read_history(reader: Reader) -> float:
    """Read `history: 7 days` in seconds."""
    given = reader.document.values.get("history")
    if given is None:
        return _DEFAULT_SECONDS
    read = read_options(reader, _History, {"history": given}, (), "the pipeline")
    return seconds(read.history) if read else _DEFAULT_SECONDS


def read_listeners(reader: Reader) -> tuple[str, ...]:
    """Read `listeners: ["module:Class"]`."""
    found = []
    for number, each in enumerate(_read_list(reader, "listeners", '["module:Class"]')):
        if isinstance(each, str) and _LISTENER.fullmatch(each):
            found.append(each)
        else:
            fix = "write 'module:Class', a StreamingQueryListener in a .py file next to this one"
            reader.report("wrong-type", ("listeners", number), f"a listener is {show(each)}", fix)
    return tuple(found)


def read_webhooks(reader: Reader) -> tuple[Webhook, ...]:
    """Read `webhooks: [{url: ..., events: [...]}]`."""
    webhooks = []
    for number, each in enumerate(_read_list(reader, "webhooks", "[{url: ...}]")):
        keys: Keys = ("webhooks", number)
        if not isinstance(each, Mapping):
            says = f"a webhook is {show(each)}, expected a mapping"
            reader.report("wrong-type", keys, says, "write '- url: ...'")
            continue
        read = read_options(reader, _Webhook, dict(each), keys, "a webhook")
        if read is not None:
            webhooks.append(Webhook(read.url, reader.document.place(keys), read.events, read.body))
    return tuple(webhooks)


def _read_list(reader: Reader, key: str, example: str) -> list[Any]:
    given = reader.document.values.get(key)
    if given is None:
        return []
    if isinstance(given, list | tuple):
        return list(given)
    reader.report("wrong-type", (key,), f"'{key}' is {show(given)}, expected a list", f"write '{key}: {example}'")
    return []
