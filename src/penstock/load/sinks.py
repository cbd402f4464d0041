"""A sink as the file says it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, ValidationError, field_validator

from penstock.connectors import SINKS
from penstock.load.reading import Reading
from penstock.load.sections import misspelled, one_kind
from penstock.load.validate import read_options
from penstock.model import Sink, Trigger
from penstock.options import Duration, Options
from penstock.words import listed, shown

_TRIGGERS = "default, a duration like '1 minute', once, available-now, continuous 1 second or real-time 5 seconds"

_PLAIN = {"default": Trigger(), "once": Trigger("once"), "available-now": Trigger("available-now")}


class _Interval(Options):
    every: Duration


class _Settings(Options):
    reads: str = Field(alias="from", min_length=1, description="The source or step whose rows are written.")
    mode: Literal["append", "update", "complete"] = "append"
    trigger: str = "default"

    @field_validator("trigger")
    @classmethod
    def _is_a_trigger(cls, text: str) -> str:
        read_trigger(text)
        return text


def read_sink(reading: Reading, name: str, raw: Any) -> Sink | None:
    """The sink, or None after noting everything wrong with it."""
    keys, who = ("sinks", name), f"sink {name!r}"
    if not isinstance(raw, Mapping):
        says = f"{who} is {shown(raw)}, expected a mapping with 'from' and a connector"
        reading.found("wrong-type", keys, says, f"write 'from' and one of {listed(sorted(SINKS))} below it")
        return None
    own = ("from", "mode", "trigger")
    kind = one_kind(reading, raw, SINKS, own, keys)
    connector = read_options(reading, SINKS[kind], raw[kind], (*keys, kind), who) if kind else None
    # A misspelled 'from' is not a missing one too.
    meant = {"from": "?"} if "from" in misspelled(raw, SINKS, own) else {}
    settings = read_options(reading, _Settings, {**meant, **{key: raw[key] for key in own if key in raw}}, keys, who)
    if connector is None or settings is None:
        return None
    trigger = read_trigger(settings.trigger)
    return Sink(name, reading.document.place(keys), settings.reads, connector, settings.mode, trigger)


def read_trigger(text: str) -> Trigger:
    """The trigger that a text names; ValueError says what it can name."""
    words = text.strip()
    if words in _PLAIN:
        return _PLAIN[words]
    try:
        if words.startswith("continuous "):
            return Trigger("continuous", _duration(words.removeprefix("continuous ")))
        if words.startswith("real-time "):
            return Trigger("real-time", _duration(words.removeprefix("real-time ")))
        return Trigger("interval", _duration(words))
    except ValidationError:
        raise ValueError(f"{text!r} is not a trigger; write {_TRIGGERS}") from None


def _duration(text: str) -> str:
    return _Interval(every=text).every
