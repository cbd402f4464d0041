"""What a file says about being watched: how long history is kept, listeners of the user, webhooks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, field_validator

from penstock.load.reading import Reading
from penstock.load.validate import read_options
from penstock.model import Keys, Webhook
from penstock.options import Duration, Names, Options, seconds
from penstock.words import shown

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


def read_history(reading: Reading) -> float:
    """`history: 7 days` in seconds."""
    given = reading.document.values.get("history")
    if given is None:
        return _DEFAULT_SECONDS
    read = read_options(reading, _History, {"history": given}, (), "the pipeline")
    return seconds(read.history) if read else _DEFAULT_SECONDS


def read_listeners(reading: Reading) -> tuple[str, ...]:
    """`listeners: ["module:Class"]`."""
    found = []
    for number, each in enumerate(_list(reading, "listeners", '["module:Class"]')):
        if isinstance(each, str) and _LISTENER.fullmatch(each):
            found.append(each)
        else:
            fix = "write 'module:Class', a StreamingQueryListener in a .py file beside this one"
            reading.found("wrong-type", ("listeners", number), f"a listener is {shown(each)}", fix)
    return tuple(found)


def read_webhooks(reading: Reading) -> tuple[Webhook, ...]:
    """`webhooks: [{url: ..., events: [...]}]`."""
    made = []
    for number, each in enumerate(_list(reading, "webhooks", "[{url: ...}]")):
        keys: Keys = ("webhooks", number)
        if not isinstance(each, Mapping):
            says = f"a webhook is {shown(each)}, expected a mapping"
            reading.found("wrong-type", keys, says, "write '- url: ...'")
            continue
        read = read_options(reading, _Webhook, dict(each), keys, "a webhook")
        if read is not None:
            made.append(Webhook(read.url, reading.document.place(keys), read.events, read.body))
    return tuple(made)


def _list(reading: Reading, key: str, example: str) -> list[Any]:
    given = reading.document.values.get(key)
    if given is None:
        return []
    if isinstance(given, list | tuple):
        return list(given)
    reading.found("wrong-type", (key,), f"'{key}' is {shown(given)}, expected a list", f"write '{key}: {example}'")
    return []
