"""Reads what sources, steps and sinks share: a name, and a mapping with exactly one kind."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic import Field, ValidationError, field_validator, model_validator

from penstock.connector import StepOptions
from penstock.connectors import SINKS, SOURCES
from penstock.load.decode import KEYS as DECODE_KEYS
from penstock.load.decode import read_decode, read_value
from penstock.load.reader import Reader
from penstock.load.validate import read_options, suggest_key
from penstock.model import Keys, Sink, Source, Step, Target, Trigger, Watermark
from penstock.options import DURATION, Duration, Options, Secret
from penstock.sql import find_table_names
from penstock.steps import STEPS
from penstock.text import join_words, nearest, show

if TYPE_CHECKING:
    from typing_extensions import Self


_Node = TypeVar("_Node")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


def read_section(reader: Reader, section: str, read: Callable[[Reader, str, Any], _Node | None]) -> tuple[_Node, ...]:
    """Read the nodes of a section; invalid ones are reported and left out."""
    nodes = reader.document.values.get(section)
    if nodes is None:
        return ()
    if not isinstance(nodes, Mapping):
        says = f"'{section}' is {show(nodes)}, expected a mapping of names"
        reader.report("wrong-type", (section,), says, f"write '{section}:' and below it 'name: ...'")
        return ()
    for name in nodes:
        _check_name(reader, section, name)
    built = (read(reader, name, raw) for name, raw in nodes.items())
    return tuple(node for node in built if node is not None)


def check_unique_names(reader: Reader) -> None:
    """Report names that differ only in case: they become views, and SQL ignores case."""
    first: dict[str, tuple[str, str]] = {}
    for section in ("sources", "steps", "sinks"):
        nodes = reader.document.values.get(section)
        for name in nodes if isinstance(nodes, Mapping) else ():
            other, their_name = first.setdefault(str(name).lower(), (section, name))
            if (other, their_name) != (section, name):
                where = reader.document.place((other, their_name))
                says = f"{section[:-1]} {name!r} has the same name as {other[:-1]} {their_name!r} on line {where.line}"
                reader.report("names-differ", (section, name), says, "give each its own name")


def read_kind(
    reader: Reader,
    raw: Mapping[str, Any],
    kinds: Collection[str],
    settings: Iterable[str],
    keys: Keys,
    who: str = "",
) -> str:
    """Find the one key that is a kind; '' after reporting what is wrong with the keys."""
    who, settings = who or f"{str(keys[0])[:-1]} {keys[1]!r}", set(settings)
    # Settings first, because testing whether a word is a kind scans the entry points of every installed package.
    found = [key for key in raw if key not in settings and key in kinds]
    unknown = [key for key in raw if key not in settings and key not in found]
    for key in unknown:
        known = [*sorted(kinds), *settings]
        reader.report("unknown-key", (*keys, key), f"{who}: unknown key {key!r}", suggest_key(str(key), known))
    if len(found) > 1:
        says = f"{who} is {join_words(found, 'and')} at once"
        reader.report("one-kind", (*keys, found[1]), says, "keep one of them")
    elif not found and not unknown:
        reader.report("one-kind", keys, f"{who} has no kind", f"add one of {join_words(sorted(kinds))}")
    return found[0] if len(found) == 1 else ""


def guess_keys(raw: Mapping[str, Any], kinds: Iterable[str], settings: Iterable[str]) -> set[str | None]:
    """The known keys that unknown ones are probably meant to be."""
    words = [*kinds, *settings]
    return {nearest(str(key), words) for key in raw if key not in words}


def _check_name(reader: Reader, section: str, name: object) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        says = f"{section[:-1]} {show(name)} has a name that SQL cannot use"
        fix = "use letters, digits and '_', at most 64, not starting with a digit"
        reader.report("name", (section, str(name)), says, fix)


_DECODE_KEYS = tuple(DECODE_KEYS)


class _Watermark(Options):
    column: str = Field(min_length=1, description="The column with the time of an event.")
    delay: Duration = Field(description="How late a row may be, like '30 minutes'.")
    max_ahead: Literal["none"] | Duration = Field(
        default="1 hour",
        description="How far ahead of the clock a row may be; beyond it, it is a bad record. `none`: no limit.",
    )


class _Static(Options):
    refresh: Literal["never", "on change"] | Duration = Field(
        default="never", description="When the table is read again: never, on change, or at an interval."
    )


class _SourceSettings(Options):
    metadata: bool = Field(default=False, description="Add the struct `_record` with the origin of each record.")
    static: bool | _Static = Field(default=False, description="Read it as a static table.")
    watermark: _Watermark | None = Field(default=None, description="How late a row may be.")
    bad_records: Literal["fail", "drop"] = Field(
        default="fail", description="What to do with records that cannot be decoded; dropped ones are counted."
    )


_SOURCE_KEYS = tuple(_SourceSettings.model_fields)


def read_source(reader: Reader, name: str, raw: Any) -> Source | None:
    """Read a source; None after reporting everything wrong with it."""
    keys, who = ("sources", name), f"source {name!r}"
    if not isinstance(raw, Mapping):
        says = f"{who} is {show(raw)}, expected a mapping with a connector"
        reader.report("wrong-type", keys, says, f"write one of {join_words(sorted(SOURCES))} below it")
        return None
    kind = read_kind(reader, raw, SOURCES, (*_DECODE_KEYS, *_SOURCE_KEYS), keys)
    connector = read_options(reader, SOURCES[kind], raw[kind], (*keys, kind), who) if kind else None
    settings = read_options(reader, _SourceSettings, {key: raw[key] for key in _SOURCE_KEYS if key in raw}, keys, who)
    value = read_value(reader, name, raw)
    key = read_decode(reader, name, raw["key"], (*keys, "key")) if "key" in raw else None
    if connector is None or settings is None:
        return None
    late = settings.watermark
    return Source(
        name=name,
        at=reader.document.place(keys),
        connector=connector,
        value=value,
        key=key,
        metadata=settings.metadata,
        watermark=Watermark(late.column, late.delay, late.max_ahead.replace("none", "")) if late else None,
        bad_records=settings.bad_records,
        static=_refresh(settings.static),
    )


def _refresh(static: bool | _Static) -> str:
    if isinstance(static, _Static):
        return static.refresh
    return "never" if static else ""


_EXPECTED = {"sql": "a SELECT", "python": "a function, written 'module:function'"}


def read_step(reader: Reader, name: str, raw: Any) -> Step | None:
    """Read a step; None after reporting everything wrong with it."""
    keys: Keys = ("steps", name)
    if isinstance(raw, str):
        return _build_step(reader, name, "sql", {"sql": raw}, keys)
    if callable(raw):
        return _build_step(reader, name, "python", {"python": raw}, keys)
    if not isinstance(raw, Mapping):
        says = f"step {name!r} is {show(raw)}, expected SQL or a mapping"
        reader.report("wrong-type", keys, says, "write 'name: SELECT ...' or 'name: {python: module:function}'")
        return None
    kind = read_kind(reader, raw, STEPS, ("reads",), keys)
    return _build_step(reader, name, kind, raw, (*keys, kind)) if kind else None


def _build_step(reader: Reader, name: str, kind: str, raw: Mapping[str, Any], at: Keys) -> Step | None:
    if isinstance(raw[kind], Secret):
        says = f"step {name!r} has a secret in its text"
        reader.report("variable", at, says, "write ${NAME} for a value that is not secret")
        return None
    if kind == "sql" and "reads" in raw:
        reader.report(
            "unknown-key", ("steps", name, "reads"), f"step {name!r} reads the tables in its SQL", "remove 'reads'"
        )
        return None
    if not _is_valid_short_form(raw[kind], kind):
        says = f"step {name!r}: {kind!r} is {show(raw[kind])}, expected {_EXPECTED[kind]}"
        reader.report("wrong-type", at, says)
        return None
    what = read_options(reader, STEPS[kind], _step_options(kind, raw), at, f"step {name!r}")
    if what is None:
        return None
    reads = _reads(reader, what)
    if not reads and kind == "python":
        says = f"step {name!r} reads nothing"
        reader.report("missing-key", at, says, "add 'reads: [name]', the inputs of the function")
    step = Step(name, reader.document.place(("steps", name)), what, reads)
    text_keys = (*at, "text") if isinstance(raw[kind], Mapping) else at
    return replace(step, text_at=reader.document.text_at(text_keys, step.text)) if step.text else step


def _is_valid_short_form(given: Any, kind: str) -> bool:
    if isinstance(given, StepOptions | Mapping) or kind not in _EXPECTED:
        return True
    if kind == "sql":
        return isinstance(given, str) and bool(given.strip())
    return callable(given) or (isinstance(given, str) and re.fullmatch(r"[\w.]+:\w+", given) is not None)


def _step_options(kind: str, raw: Mapping[str, Any]) -> Any:
    given = raw[kind]
    if isinstance(given, StepOptions | Mapping) and "reads" not in raw:
        return given
    reads = {"reads": raw["reads"]} if "reads" in raw else {}
    if isinstance(given, Mapping):
        return {**given, **reads}
    if callable(given):
        return {"call": given, "reads": _parameters(given), **reads}
    # The first option of a step has a short form: `sql: SELECT ...`.
    return {next(iter(STEPS[kind].model_fields)): given, **reads}


def _parameters(call: Callable[..., Any]) -> tuple[str, ...]:
    empty, positional = inspect.Parameter.empty, inspect.Parameter.POSITIONAL_OR_KEYWORD
    try:
        parameters = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):
        return ()
    return tuple(each.name for each in parameters if each.kind <= positional and each.default is empty)


def _reads(reader: Reader, what: StepOptions) -> tuple[str, ...]:
    text = getattr(what, "text", None)
    if text is None:
        return tuple(getattr(what, "reads", ()))
    return find_table_names(text, reader.stream_names)


_TRIGGER = rf"^\s*(default|once|available-now|((continuous|real-time) )?{DURATION})\s*$"
_TRIGGER_FORMS = "default, a duration like '1 minute', once, available-now, continuous 1 second or real-time 5 seconds"

_SINK_KEYS = ("from", "mode", "trigger", "to")

_SIMPLE_TRIGGERS = {"default": Trigger(), "once": Trigger("once"), "available-now": Trigger("available-now")}


class _Interval(Options):
    every: Duration


class _TargetSettings(Options):
    name: str = Field(default="", pattern=r"^[A-Za-z_][A-Za-z0-9_-]{0,63}$", description="The name of the target.")
    select: str = Field(default="", description="The columns it gets, as in SELECT.")
    where: str = Field(default="", description="The rows it gets, as in WHERE.")
    group_by: str = Field(default="", description="How `select` aggregates the rows of one batch, as in GROUP BY.")
    optional: bool = Field(default=False, description="Whether the pipeline continues when writing to it fails.")

    @model_validator(mode="after")
    def _groups_something(self) -> Self:
        if self.group_by and not self.select:
            raise ValueError("'group_by' needs 'select' with the aggregates")
        return self


_TARGET_SQL = ("select", "where", "group_by")


class _SinkSettings(Options):
    reads: str = Field(alias="from", min_length=1, description="The source or step whose rows are written.")
    mode: Literal["append", "update", "complete"] = Field(
        default="append", description="New rows, changed rows, or the whole result after each batch."
    )
    trigger: str = Field(
        default="default",
        description="When a batch runs: default, a duration, once, available-now, or continuous or real-time and one.",
        json_schema_extra={"pattern": _TRIGGER},
    )

    @field_validator("trigger")
    @classmethod
    def _is_a_trigger(cls, text: str) -> str:
        parse_trigger(text)
        return text


def read_sink(reader: Reader, name: str, raw: Any) -> Sink | None:
    """Read a sink; None after reporting everything wrong with it."""
    keys, who = ("sinks", name), f"sink {name!r}"
    if not isinstance(raw, Mapping):
        says = f"{who} is {show(raw)}, expected a mapping with 'from' and a connector"
        reader.report("wrong-type", keys, says, f"write 'from' and one of {join_words(sorted(SINKS))} below it")
        return None
    own = ("from", "mode", "trigger")
    targets = _read_targets(reader, raw, keys, who) if "to" in raw else _read_single_target(reader, raw, keys, who)
    # Do not report a misspelled 'from' as missing as well.
    meant = {"from": "?"} if "from" in guess_keys(raw, SINKS, own) else {}
    settings = read_options(reader, _SinkSettings, {**meant, **{key: raw[key] for key in own if key in raw}}, keys, who)
    if not targets or settings is None:
        return None
    trigger = parse_trigger(settings.trigger)
    return Sink(name, reader.document.place(keys), settings.reads, targets, settings.mode, trigger)


def _read_single_target(reader: Reader, raw: Mapping[str, Any], keys: Keys, who: str) -> tuple[Target, ...]:
    kind = read_kind(reader, raw, SINKS, _SINK_KEYS, keys)
    connector = read_options(reader, SINKS[kind], raw[kind], (*keys, kind), who) if kind else None
    return (Target(kind, reader.document.place((*keys, kind)), connector, (kind,)),) if connector else ()


def _read_targets(reader: Reader, raw: Mapping[str, Any], keys: Keys, who: str) -> tuple[Target, ...]:
    for key in raw:
        if key in SINKS:
            reader.report("one-kind", (*keys, key), f"{who} has both {key!r} and 'to'", "move it into the list of 'to'")
        elif key not in _SINK_KEYS:
            reader.report("unknown-key", (*keys, key), f"{who}: unknown key {key!r}", suggest_key(str(key), _SINK_KEYS))
    listing = raw["to"]
    if not isinstance(listing, list) or not listing:
        says = f"{who}: 'to' is {show(listing)}, expected a list of targets"
        reader.report("wrong-type", (*keys, "to"), says, "write '- kafka: {...}' below it, one item for each target")
        return ()
    built = [_read_target(reader, each, (*keys, "to", number), who) for number, each in enumerate(listing)]
    targets = tuple(target for target in built if target is not None)
    names: set[str] = set()
    for target in targets:
        if target.name in names:
            says = f"{who} has two targets named {target.name!r}"
            fix = "give each its own 'name': the journal of written batches uses it"
            reader.report("names-differ", (*keys, *target.keys), says, fix)
        names.add(target.name)
    return targets if len(targets) == len(listing) else ()


def _read_target(reader: Reader, raw: Any, keys: Keys, who: str) -> Target | None:
    if not isinstance(raw, Mapping):
        says = f"{who}: a target of 'to' is {show(raw)}, expected a mapping with a connector"
        reader.report("wrong-type", keys, says, f"write one of {join_words(sorted(SINKS))} with its options")
        return None
    own = tuple(_TargetSettings.model_fields)
    kind = read_kind(reader, raw, SINKS, own, keys, f"a target of {who}")
    connector = read_options(reader, SINKS[kind], raw[kind], (*keys, kind), who) if kind else None
    settings = read_options(reader, _TargetSettings, {key: raw[key] for key in own if key in raw}, keys, who)
    if connector is None or settings is None:
        return None
    at = reader.document.place((*keys, kind))
    inside = (*keys[2:], kind)
    wanted = settings.model_dump(exclude={"name"})
    texts_at = {key: reader.document.text_at((*keys, key), raw[key]) for key in _TARGET_SQL if key in raw}
    return Target(settings.name or kind, at, connector, inside, **wanted, texts_at=texts_at)


def parse_trigger(text: str) -> Trigger:
    """Parse a trigger; a ValueError lists the valid ones."""
    words = text.strip()
    if words in _SIMPLE_TRIGGERS:
        return _SIMPLE_TRIGGERS[words]
    try:
        if words.startswith("continuous "):
            return Trigger("continuous", _duration(words.removeprefix("continuous ")))
        if words.startswith("real-time "):
            return Trigger("real-time", _duration(words.removeprefix("real-time ")))
        return Trigger("interval", _duration(words))
    except ValidationError:
        raise ValueError(f"{text!r} is not a trigger; write {_TRIGGER_FORMS}") from None


def _duration(text: str) -> str:
    return _Interval(every=text).every
