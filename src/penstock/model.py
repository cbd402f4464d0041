"""The nouns that every room shares; all frozen."""

from __future__ import annotations

import hashlib
import json
import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property
from typing import Any, Literal, Protocol

from penstock.connector import SinkOptions, SourceOptions, StepOptions
from penstock.options import Options, Secret
from penstock.redaction import redact

Severity = Literal["error", "warning"]
Keys = tuple[str | int, ...]
_EXTENSIONS = "spark.sql.extensions"
_NOT_MEANING = ("at", "text_at", "texts_at", "places", "silences")
"""Fields that a change of comments or lines changes."""


@dataclass(frozen=True, order=True)
class Location:
    """A place in the user's file: line and column count from 1, a column is one character.

    Where only the file is known, it is the beginning of it.
    """

    file: str
    line: int = 1
    column: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


def closest(places: Mapping[Keys, Location], keys: Keys, least: int = 0) -> Location | None:
    """The place of `keys`, or of the longest beginning of them (of at least so many) that has one."""
    beginnings = (keys[:length] for length in range(len(keys), least - 1, -1))
    return next((places[each] for each in beginnings if each in places), None)


class TextMap(Protocol):
    """Where the characters of a text are in the user's file: a source map, computed when a finding needs it."""

    def locate(self, offset: int) -> Location:
        """The location of the character at an offset; offsets outside the text are at its nearest end."""


@dataclass(frozen=True)
class JoinedText:
    """The map of a text that consists of parts, some of them the user's."""

    parts: tuple[tuple[str, TextMap | None], ...]
    otherwise: Location

    def locate(self, offset: int) -> Location:
        """The location in the part of the user's that has the offset, or in the nearest one before it."""
        start, nearest = 0, self.otherwise
        for text, text_map in self.parts:
            if text_map is not None and (offset >= start or nearest is self.otherwise):
                nearest = text_map.locate(min(max(offset - start, 0), len(text)))
            start += len(text)
        return nearest


@dataclass(frozen=True)
class Finding:
    """Something wrong with a pipeline, where, and what to do."""

    rule: str
    at: Location
    says: str
    fix: str = ""
    severity: Severity = "error"

    def __post_init__(self) -> None:
        # Rules quote what they find, and what they find may be a secret.
        object.__setattr__(self, "says", redact(self.says))
        object.__setattr__(self, "fix", redact(self.fix))

    def __str__(self) -> str:
        mark = "warning: " if self.severity == "warning" else ""
        return f"{self.at}: {mark}{self.says}" + (f"; {self.fix}" if self.fix else "")


def errors(findings: Iterable[Finding]) -> list[Finding]:
    """The findings of severity error."""
    return [finding for finding in findings if finding.severity == "error"]


@dataclass(frozen=True)
class Silence:
    """A comment that allows what a rule reports: `# penstock: allow RULE because REASON`."""

    rule: str
    reason: str
    at: Location
    """The comment."""
    line: int
    """The line that the comment is about: its own, or the one below."""


@dataclass(frozen=True)
class Decode:
    """How bytes or text become columns."""

    format: Literal["json", "csv", "avro", "string", "bytes"]
    schema: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    registry_header: bool = False


@dataclass(frozen=True)
class Watermark:
    """Rows of `column` that are later than `delay` behind the newest are too late."""

    column: str
    delay: str
    max_ahead: str = "1 hour"
    """Rows further ahead of the clock are bad records; empty without a limit."""


_ENDING = ("once", "available-now")


@dataclass(frozen=True)
class Trigger:
    """When a query runs its next batch."""

    kind: Literal["default", "interval", "once", "available-now", "continuous", "real-time"] = "default"
    interval: str = ""

    def __str__(self) -> str:
        return self.interval if self.is_interval else f"{self.kind} {self.interval}".strip()

    @property
    def ends(self) -> bool:
        """Whether a query with this trigger ends by itself."""
        return self._is(*_ENDING)

    @property
    def is_interval(self) -> bool:
        """Whether batches begin at fixed distances."""
        return self._is("interval")

    @property
    def is_continuous(self) -> bool:
        """Whether the continuous engine runs it."""
        return self._is("continuous")

    @property
    def is_real_time(self) -> bool:
        """Whether it runs in real-time mode."""
        return self._is("real-time")

    @property
    def has_micro_batches(self) -> bool:
        """Whether Spark's ordinary engine runs it, which knows `observe` and `foreachBatch`."""
        return not self.is_continuous and not self.is_real_time

    def _is(self, *kinds: str) -> bool:
        return not {self.kind}.isdisjoint(kinds)

    @property
    def spark_arguments(self) -> dict[str, Any]:
        """The arguments of Spark's `trigger`; empty for the default."""
        arguments: dict[str, dict[str, Any]] = {
            "default": {},
            "interval": {"processingTime": self.interval},
            "once": {"once": True},
            "available-now": {"availableNow": True},
            "continuous": {"continuous": self.interval},
            "real-time": {"realTime": self.interval},
        }
        return arguments[self.kind]


@dataclass(frozen=True)
class Source:
    """A stream that comes in."""

    name: str
    at: Location
    connector: SourceOptions
    value: Decode | None = None
    key: Decode | None = None
    metadata: bool = False
    watermark: Watermark | None = None
    bad_records: Literal["fail", "drop"] = "fail"
    static: str = ""
    """How a static table is refreshed: `never`, `on change` or a duration; empty for a stream."""


@dataclass(frozen=True)
class Step:
    """Rows made from other rows."""

    name: str
    at: Location
    what: StepOptions
    reads: tuple[str, ...]
    text_at: TextMap | None = field(default=None, compare=False, repr=False)
    """Where its SQL is; None if it has none."""

    @property
    def text(self) -> str:
        """Its SQL; empty if it has none."""
        text = getattr(self.what, "text", "")
        return text if isinstance(text, str) else ""

    def locate(self, offset: int) -> Location:
        """Where a character of its SQL is."""
        return self.text_at.locate(offset) if self.text_at is not None else self.at


@dataclass(frozen=True)
class Target:
    """One place that a sink writes its batches to."""

    name: str
    at: Location
    connector: SinkOptions
    keys: Keys
    """Where its options are, inside the sink."""
    select: str = ""
    where: str = ""
    group_by: str = ""
    optional: bool = False
    texts_at: Mapping[str, TextMap] = field(default_factory=dict, compare=False, repr=False)
    """Where `select`, `where` and `group_by` are."""

    def sql(self, table: str) -> str:
        """What it gets of the rows of a table; empty if it gets them as they are."""
        return "".join(text for text, _ in self._sql_parts(table))

    def sql_at(self, table: str) -> TextMap:
        """Where the parts of its SQL are."""
        parts = tuple((text, self.texts_at.get(key)) for text, key in self._sql_parts(table))
        return JoinedText(parts, self.at)

    def _sql_parts(self, table: str) -> list[tuple[str, str]]:
        """The parts of its SQL, each with the key that it is the value of."""
        if not self.select and not self.where:
            return []
        parts = [("SELECT ", ""), (self.select or "*", "select"), (f" FROM {table} WHERE ", "")]
        grouped = [(" GROUP BY ", ""), (self.group_by, "group_by")] if self.group_by else []
        return [*parts, (self.where or "true", "where"), *grouped]


@dataclass(frozen=True)
class Sink:
    """One streaming query with one checkpoint, and what it writes to."""

    name: str
    at: Location
    reads: str
    targets: tuple[Target, ...]
    mode: str = "append"
    trigger: Trigger = Trigger()

    @property
    def native(self) -> SinkOptions | None:
        """The one connector that Spark writes by itself; None if every batch is handed to us."""
        only = self.targets[0]
        changed = only.select or only.where or only.optional or len(self.targets) > 1
        return only.connector if only.connector.native and not changed else None


Node = Source | Step | Sink


@dataclass(frozen=True)
class Restart:
    """When a pipeline that has failed is started again, and when it counts as stuck."""

    limit: int = 5
    within_seconds: float = 600.0
    backoff_seconds: float = 1.0
    most_seconds: float = 60.0
    jitter: float = 0.2
    healthy_seconds: float = 300.0
    stalled_seconds: float = 600.0
    stalled_times: float = 10.0


@dataclass(frozen=True)
class Webhook:
    """An address that events are posted to."""

    url: str
    at: Location
    events: tuple[str, ...] = ()
    """Which events; empty for every failure and restart."""
    body: Literal["event", "slack", "rows"] = "event"


@dataclass(frozen=True)
class Pipeline:
    """Everything that a file says."""

    name: str
    at: Location
    sources: tuple[Source, ...]
    steps: tuple[Step, ...]
    sinks: tuple[Sink, ...]
    folder: str = "."
    storage: str = ""
    spark: Mapping[str, str] = field(default_factory=dict)
    state_limit: int = 0
    """How many bytes of state one query may have before we say so; 0 for half of the memory."""
    tests: tuple[Mapping[str, Any], ...] = ()
    restart: Restart = Restart()
    history_seconds: float = 7 * 86_400.0
    """How long events are kept."""
    listeners: tuple[str, ...] = ()
    """Classes of the user, as `module:Class`, that Spark tells about every query of the pipeline."""
    webhooks: tuple[Webhook, ...] = ()
    places: Mapping[Keys, Location] = field(default_factory=dict, compare=False, repr=False)
    silences: tuple[Silence, ...] = field(default=(), compare=False, repr=False)

    def where(self, node: Node, *keys: str | int) -> Location:
        """The place of a node's key, or the nearest place that is known: where(sink, "mode")."""
        section = {Source: "sources", Step: "steps", Sink: "sinks"}[type(node)]
        return closest(self.places, (section, node.name, *keys), 2) or node.at

    def node_at(self, at: Location) -> Node | None:
        """The source, step or sink whose lines contain a place; None for a place outside them."""
        # A place without a column is anywhere on its line.
        last = at if at.column > 1 else Location(at.file, at.line, sys.maxsize)
        number = bisect_right(self._starts, last, key=lambda start: start[0]) - 1
        start, node = self._starts[number] if number >= 0 else (None, None)
        return node if start is not None and start.file == at.file else None

    @cached_property
    def _starts(self) -> list[tuple[Location, Node | None]]:
        """Where each node begins, and each key of the file, which ends the node before it."""
        keys = [(at, None) for keys, at in self.places.items() if len(keys) == 1]
        return sorted([*keys, *((node.at, node) for node in self.nodes)], key=lambda start: start[0])

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Sources, steps and sinks, in file order."""
        return (*self.sources, *self.steps, *self.sinks)

    @cached_property
    def streams(self) -> Mapping[str, Source | Step]:
        """What can be read, by name."""
        nodes: tuple[Source | Step, ...] = (*self.sources, *self.steps)
        return {node.name: node for node in nodes}

    @property
    def connectors(self) -> Iterator[SourceOptions | SinkOptions]:
        """The options of every source and sink."""
        yield from (source.connector for source in self.sources)
        yield from (target.connector for sink in self.sinks for target in sink.targets)

    @property
    def ends(self) -> Iterator[tuple[Source | Sink, SourceOptions | SinkOptions]]:
        """Every source and sink with its options."""
        yield from ((source, source.connector) for source in self.sources)
        yield from ((sink, target.connector) for sink in self.sinks for target in sink.targets)

    @property
    def runs_user_code(self) -> bool:
        """Whether Python modules next to the file take part."""
        parts = [*self.connectors, *(step.what for step in self.steps)]
        return bool(self.listeners) or any(part.runs_user_code for part in parts)

    @property
    def jar_groups(self) -> tuple[str, ...]:
        """The groups of jars that the session needs, each once."""
        decodes = [decode for source in self.sources for decode in (source.value, source.key) if decode]
        groups = [group for connector in self.connectors for group in connector.jar_groups]
        groups += ["avro" for decode in decodes if decode.format == "avro"]
        return tuple(dict.fromkeys(groups))

    @property
    def session_settings(self) -> dict[str, str]:
        """What the session must have from its start: of the connectors, then of the file."""
        asked = [*(connector.session for connector in self.connectors), self.spark]
        together = {key: value for settings in asked for key, value in settings.items()}
        # A list, unlike the others: one does not take the place of another.
        extensions = dict.fromkeys(settings[_EXTENSIONS] for settings in asked if settings.get(_EXTENSIONS))
        return {**together, _EXTENSIONS: ",".join(extensions)} if extensions else together

    @cached_property
    def streaming(self) -> frozenset[str]:
        """The sources and steps whose rows keep coming: made from a source that is not static."""
        readers: dict[str, list[str]] = {}
        for step in self.steps:
            for name in step.reads:
                readers.setdefault(name, []).append(step.name)
        found: set[str] = set()
        waiting = [source.name for source in self.sources if not source.static]
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting += readers.get(name, ())
        return frozenset(found)

    def upstream(self, name: str) -> tuple[str, ...]:
        """Every stream that `name` is made from, itself included."""
        known = self._upstream.get(name)
        if known is None:
            known = self._upstream[name] = self._find_upstream(name)
        return known

    @cached_property
    def _upstream(self) -> dict[str, tuple[str, ...]]:
        return {}

    def _find_upstream(self, name: str) -> tuple[str, ...]:
        seen: dict[str, None] = {}
        waiting = [name]
        while waiting:
            current = waiting.pop()
            node = self.streams.get(current)
            if node is not None and current not in seen:
                seen[current] = None
                waiting += node.reads if isinstance(node, Step) else ()
        return tuple(seen)


def fingerprint(pipeline: Pipeline) -> str:
    """A digest of what a pipeline is: the same for files that differ in comments, places and values of secrets."""
    text = json.dumps(_normalize(pipeline), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _normalize(value: Any) -> Any:
    if isinstance(value, Secret):
        return "***"
    if isinstance(value, Options):
        return {"kind": type(value).__name__, **{name: _normalize(each) for name, each in value}}
    if is_dataclass(value) and not isinstance(value, type):
        named = {each.name: getattr(value, each.name) for each in fields(value)}
        return {name: _normalize(each) for name, each in named.items() if name not in _NOT_MEANING}
    if isinstance(value, Mapping):
        return {str(key): _normalize(each) for key, each in value.items()}
    if isinstance(value, list | tuple | frozenset | set):
        return [_normalize(each) for each in value]
    return f"{value.__module__}:{value.__qualname__}" if callable(value) else value
