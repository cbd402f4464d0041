"""A source as the file says it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from penstock.connectors import SINKS, SOURCES
from penstock.load.decode import FORMATS, read_decode, read_value
from penstock.load.reading import Reader
from penstock.load.sections import misspelled, one_kind
from penstock.load.spark_words import suggest_key
from penstock.load.sql_names import sql_names
from penstock.load.validate import read_options
from penstock.model import Keys, Sink, Source, Step, Target, Trigger, Watermark
from penstock.options import Duration, Options, Secret, StepOptions
from penstock.steps import STEPS
from penstock.text import join_words, show

if TYPE_CHECKING:
    from typing_extensions import Self


_DECODES = (*FORMATS, "value", "key")


class _Watermark(Options):
    column: str = Field(min_length=1, description="The column with the time of an event.")
    delay: Duration = Field(description="How late a row may be, like '30 minutes'.")


class _Static(Options):
    refresh: Literal["never", "on change"] | Duration = Field(
        default="never", description="When the table is read again: never, on change, or every so often."
    )


class _SourceSettings(Options):
    metadata: bool = Field(default=False, description="Add the struct `_record`: where each record comes from.")
    static: bool | _Static = Field(default=False, description="Read it as a table beside the streams.")
    watermark: _Watermark | None = Field(default=None, description="How late a row may be.")
    bad_records: Literal["fail", "drop"] = Field(
        default="fail", description="What to do with records that cannot be decoded; `drop` counts them."
    )


_SOURCE_KEYS = tuple(_SourceSettings.model_fields)


def read_source(reading: Reader, name: str, raw: Any) -> Source | None:
    """The source, or None after noting everything wrong with it."""
    keys, who = ("sources", name), f"source {name!r}"
    if not isinstance(raw, Mapping):
        says = f"{who} is {show(raw)}, expected a mapping with a connector"
        reading.found("wrong-type", keys, says, f"write one of {join_words(sorted(SOURCES))} below it")
        return None
    kind = one_kind(reading, raw, SOURCES, (*_DECODES, *_SOURCE_KEYS), keys)
    connector = read_options(reading, SOURCES[kind], raw[kind], (*keys, kind), who) if kind else None
    settings = read_options(reading, _SourceSettings, {key: raw[key] for key in _SOURCE_KEYS if key in raw}, keys, who)
    value = read_value(reading, name, raw)
    key = read_decode(reading, name, raw["key"], (*keys, "key")) if "key" in raw else None
    if connector is None or settings is None:
        return None
    late = settings.watermark
    return Source(
        name=name,
        at=reading.document.place(keys),
        connector=connector,
        value=value,
        key=key,
        metadata=settings.metadata,
        watermark=Watermark(late.column, late.delay) if late else None,
        bad_records=settings.bad_records,
        static=_refresh(settings.static),
    )


def _refresh(static: bool | _Static) -> str:
    if isinstance(static, _Static):
        return static.refresh
    return "never" if static else ""


_SAID = {"sql": "a SELECT", "python": "a function, written 'module:function'"}


def read_step(reading: Reader, name: str, raw: Any) -> Step | None:
    """The step, or None after noting everything wrong with it."""
    keys: Keys = ("steps", name)
    if isinstance(raw, str):
        return _made(reading, name, "sql", {"sql": raw}, keys)
    if callable(raw):
        return _made(reading, name, "python", {"python": raw}, keys)
    if not isinstance(raw, Mapping):
        says = f"step {name!r} is {show(raw)}, expected SQL or a mapping"
        reading.found("wrong-type", keys, says, "write 'name: SELECT ...' or 'name: {python: module:function}'")
        return None
    kind = one_kind(reading, raw, STEPS, ("reads",), keys)
    return _made(reading, name, kind, raw, (*keys, kind)) if kind else None


def _made(reading: Reader, name: str, kind: str, raw: Mapping[str, Any], at: Keys) -> Step | None:
    if isinstance(raw[kind], Secret):
        says = f"step {name!r} has a secret in its text"
        reading.found("variable", at, says, "write ${NAME} for a value that is none")
        return None
    if kind == "sql" and "reads" in raw:
        reading.found(
            "unknown-key", ("steps", name, "reads"), f"step {name!r} reads what its SQL names", "take 'reads' out"
        )
        return None
    if not _is_said(raw[kind], kind):
        says = f"step {name!r}: {kind!r} is {show(raw[kind])}, expected {_SAID[kind]}"
        reading.found("wrong-type", at, says)
        return None
    what = read_options(reading, STEPS[kind], _options(kind, raw), at, f"step {name!r}")
    if what is None:
        return None
    reads = _reads(reading, what)
    if not reads and kind == "python":
        says = f"step {name!r} reads nothing"
        reading.found("missing-key", at, says, "add 'reads: [name]', the streams that the function takes")
    place, text_at = reading.document.place(("steps", name)), reading.document.text_place(at)
    return Step(name, place, what, reads, text_at if kind == "sql" else None)


def _is_said(said: Any, kind: str) -> bool:
    if isinstance(said, StepOptions | Mapping) or kind not in _SAID:
        return True
    if kind == "sql":
        return isinstance(said, str) and bool(said.strip())
    return callable(said) or (isinstance(said, str) and re.fullmatch(r"[\w.]+:\w+", said) is not None)


def _options(kind: str, raw: Mapping[str, Any]) -> Any:
    said = raw[kind]
    if isinstance(said, StepOptions | Mapping) and "reads" not in raw:
        return said
    reads = {"reads": raw["reads"]} if "reads" in raw else {}
    if isinstance(said, Mapping):
        return {**said, **reads}
    if callable(said):
        return {"call": said, "reads": _parameters(said), **reads}
    # The first option of a step is the one that can stand alone: `sql: SELECT ...`.
    return {next(iter(STEPS[kind].model_fields)): said, **reads}


def _parameters(call: Callable[..., Any]) -> tuple[str, ...]:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    try:
        parameters = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):
        return ()
    return tuple(each.name for each in parameters if each.kind in kinds and each.default is inspect.Parameter.empty)


def _reads(reading: Reader, what: StepOptions) -> tuple[str, ...]:
    text = getattr(what, "text", None)
    if text is None:
        return tuple(getattr(what, "reads", ()))
    return sql_names(text, reading.stream_names)


_TRIGGERS = "default, a duration like '1 minute', once, available-now, continuous 1 second or real-time 5 seconds"

_SINK_KEYS = ("from", "mode", "trigger", "to")

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


class _SinkSettings(Options):
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


def read_sink(reading: Reader, name: str, raw: Any) -> Sink | None:
    """The sink, or None after noting everything wrong with it."""
    keys, who = ("sinks", name), f"sink {name!r}"
    if not isinstance(raw, Mapping):
        says = f"{who} is {show(raw)}, expected a mapping with 'from' and a connector"
        reading.found("wrong-type", keys, says, f"write 'from' and one of {join_words(sorted(SINKS))} below it")
        return None
    own = ("from", "mode", "trigger")
    targets = _several(reading, raw, keys, who) if "to" in raw else _only(reading, raw, keys, who)
    # A misspelled 'from' is not a missing one too.
    meant = {"from": "?"} if "from" in misspelled(raw, SINKS, own) else {}
    settings = read_options(
        reading, _SinkSettings, {**meant, **{key: raw[key] for key in own if key in raw}}, keys, who
    )
    if not targets or settings is None:
        return None
    trigger = read_trigger(settings.trigger)
    return Sink(name, reading.document.place(keys), settings.reads, targets, settings.mode, trigger)


def _only(reading: Reader, raw: Mapping[str, Any], keys: Keys, who: str) -> tuple[Target, ...]:
    kind = one_kind(reading, raw, SINKS, _SINK_KEYS, keys)
    connector = read_options(reading, SINKS[kind], raw[kind], (*keys, kind), who) if kind else None
    return (Target(kind, reading.document.place((*keys, kind)), connector, (kind,)),) if connector else ()


def _several(reading: Reader, raw: Mapping[str, Any], keys: Keys, who: str) -> tuple[Target, ...]:
    for key in raw:
        if key in SINKS:
            reading.found("one-kind", (*keys, key), f"{who} has {key!r} beside 'to'", "move it into the list of 'to'")
        elif key not in _SINK_KEYS:
            reading.found(
                "unknown-key", (*keys, key), f"{who} does not know {key!r}", suggest_key(str(key), _SINK_KEYS)
            )
    listing = raw["to"]
    if not isinstance(listing, list) or not listing:
        says = f"{who}: 'to' is {show(listing)}, expected a list of targets"
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


def _target(reading: Reader, raw: Any, keys: Keys, who: str) -> Target | None:
    if not isinstance(raw, Mapping):
        says = f"{who}: a target of 'to' is {show(raw)}, expected a mapping with a connector"
        reading.found("wrong-type", keys, says, f"write one of {join_words(sorted(SINKS))} with its options")
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
