"""A sink as the file says it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from penstock.connectors import SINKS
from penstock.load.reading import Reading
from penstock.load.sections import misspelled, one_kind
from penstock.load.spark_words import suggest_key
from penstock.load.validate import read_options
from penstock.model import Keys, Sink, Target, Trigger
from penstock.options import Duration, Options
from penstock.words import listed, shown

if TYPE_CHECKING:
    from typing_extensions import Self

_TRIGGERS = "default, a duration like '1 minute', once, available-now, continuous 1 second or real-time 5 seconds"

_OWN = ("from", "mode", "trigger", "to")

_PLAIN = {"default": Trigger(), "once": Trigger("once"), "available-now": Trigger("available-now")}


class _Interval(Options):
    every: Duration


class _TargetSettings(Options):
    name: str = Field(default="", pattern=r"^[A-Za-z_][A-Za-z0-9_-]{0,63}$", description="What it is called.")
    select: str = Field(default="", description="What it gets of the rows, as in SELECT.")
    where: str = Field(default="", description="Which of the rows it gets, as in WHERE.")
    group_by: str = Field(default="", description="How `select` sums up the rows of one batch, as in GROUP BY.")
    optional: bool = Field(default=False, description="Whether the pipeline goes on when it cannot be written.")

    @model_validator(mode="after")
    def _groups_something(self) -> Self:
        if self.group_by and not self.select:
            raise ValueError("'group_by' needs 'select', which says what is summed up")
        return self


class _Settings(Options):
    reads: str = Field(alias="from", min_length=1, description="The source or step whose rows are written.")
    mode: Literal["append", "update", "complete"] = Field(
        default="append", description="New rows, changed rows, or the whole result after each batch."
    )
    trigger: str = Field(
        default="default",
        description="When a batch runs: default, a duration, once, available-now, continuous or real-time with one.",
    )

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
    targets = _several(reading, raw, keys, who) if "to" in raw else _only(reading, raw, keys, who)
    # A misspelled 'from' is not a missing one too.
    meant = {"from": "?"} if "from" in misspelled(raw, SINKS, own) else {}
    settings = read_options(reading, _Settings, {**meant, **{key: raw[key] for key in own if key in raw}}, keys, who)
    if not targets or settings is None:
        return None
    trigger = read_trigger(settings.trigger)
    return Sink(name, reading.document.place(keys), settings.reads, targets, settings.mode, trigger)


def _only(reading: Reading, raw: Mapping[str, Any], keys: Keys, who: str) -> tuple[Target, ...]:
    kind = one_kind(reading, raw, SINKS, _OWN, keys)
    connector = read_options(reading, SINKS[kind], raw[kind], (*keys, kind), who) if kind else None
    return (Target(kind, reading.document.place((*keys, kind)), connector, (kind,)),) if connector else ()


def _several(reading: Reading, raw: Mapping[str, Any], keys: Keys, who: str) -> tuple[Target, ...]:
    for key in raw:
        if key in SINKS:
            reading.found("one-kind", (*keys, key), f"{who} has {key!r} beside 'to'", "move it into the list of 'to'")
        elif key not in _OWN:
            reading.found("unknown-key", (*keys, key), f"{who} does not know {key!r}", suggest_key(str(key), _OWN))
    listing = raw["to"]
    if not isinstance(listing, list) or not listing:
        says = f"{who}: 'to' is {shown(listing)}, expected a list of targets"
        reading.found("wrong-type", (*keys, "to"), says, "write '- kafka: {...}' below it, one item for each target")
        return ()
    made = [_target(reading, each, (*keys, "to", number), who) for number, each in enumerate(listing)]
    targets = tuple(target for target in made if target is not None)
    names: set[str] = set()
    for target in targets:
        if target.name in names:
            says = f"{who} has two targets named {target.name!r}"
            fix = "give each its own 'name': batches are marked as written under it"
            reading.found("names-differ", (*keys, *target.keys), says, fix)
        names.add(target.name)
    return targets if len(targets) == len(listing) else ()


def _target(reading: Reading, raw: Any, keys: Keys, who: str) -> Target | None:
    if not isinstance(raw, Mapping):
        says = f"{who}: a target of 'to' is {shown(raw)}, expected a mapping with a connector"
        reading.found("wrong-type", keys, says, f"write one of {listed(sorted(SINKS))} with its options")
        return None
    own = tuple(_TargetSettings.model_fields)
    kind = one_kind(reading, raw, SINKS, own, keys, f"a target of {who}")
    connector = read_options(reading, SINKS[kind], raw[kind], (*keys, kind), who) if kind else None
    settings = read_options(reading, _TargetSettings, {key: raw[key] for key in own if key in raw}, keys, who)
    if connector is None or settings is None:
        return None
    at = reading.document.place((*keys, kind))
    inside = (*keys[2:], kind)
    wanted = settings.model_dump(exclude={"name"})
    return Target(settings.name or kind, at, connector, inside, **wanted)


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
