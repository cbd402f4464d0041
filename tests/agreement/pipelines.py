"""Generates pipelines by chance: what people write, and what Spark refuses.

    sources -> 0 to 3 steps, each over the rows of the one before -> 1 or 2 sinks

Names and types of columns are tracked through the steps, so that Spark's refusals are about streaming, not about
misspelled columns; about 5 % of the pipelines have one wrong name on purpose.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tests.agreement.queries import GENTLE, KEYS, NUMBERS, PLAIN, SHAPES, TYPES, Rows, Scope, choose_query

# A third of them finds no SQL with a word to misspell: 5 % remain.
MISTAKES = 0.075


@dataclass(frozen=True)
class Generated:
    """A pipeline file, and what was chosen for it."""

    text: str
    parts: tuple[str, ...]


_SINKS = {
    "files": ("files: {{path: out/{name}, format: {format}}}", ("append",)),
    "console": ("console: {{}}", ("append", "update", "complete")),
    "memory": ("memory: {{}}", ("append", "complete")),
    "kafka": ('kafka: {{servers: "nowhere.invalid:9092", topic: {name}}}', ("append", "update", "complete")),
    "kafka-once": (
        'kafka: {{servers: "nowhere.invalid:9092", topic: {name}, delivery: exactly-once}}',
        ("append", "update", "complete"),
    ),
    "delta": ("delta: {{path: tables/{name}}}", ("append", "complete")),
    "foreach_batch": ('foreach_batch: {{python: "json:dumps"}}', ("append", "update", "complete")),
}
_NATIVE = ("console", "memory", "kafka")
_TRIGGERS = {
    "default": 46,
    "1 second": 16,
    "once": 4,
    "available-now": 8,
    "continuous 1 second": 11,
    "real-time 5 seconds": 11,
    "real-time 1 second": 4,
}


def generate(chance: random.Random) -> Generated:
    """A pipeline; the same state of `chance` gives the same text."""
    return _Generator(chance).generate()


@dataclass
class _Generator:
    chance: random.Random
    parts: list[str] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    steps: list[tuple[str, str]] = field(default_factory=list)
    rows: dict[str, Rows] = field(default_factory=dict)
    trigger: str = "default"
    is_gentle: bool = False
    """Whether a continuous or real-time query gets sources, steps and sinks that fit it."""

    def generate(self) -> Generated:
        (self.trigger,) = self.chance.choices(list(_TRIGGERS), list(_TRIGGERS.values()))
        self.is_gentle = self.trigger.startswith(("continuous", "real-time")) and self.chance.random() < 0.4
        self._add_sources()
        last = self._add_steps()
        if "names" in self.rows and self.chance.random() < 0.03:
            last = "names"
            self.parts.append("sink-reads-table")
        sinks = [self._sink("out", self.rows[last], self.trigger)]
        if self.chance.random() < 0.15:
            first = self.chance.choice([name for name, rows in self.rows.items() if not rows.is_static])
            sinks.append(self._sink("more", self.rows[first], "default"))
        if self.chance.random() < MISTAKES:
            self._make_mistake()
        return Generated(self._text(sinks), tuple(self.parts))

    def _text(self, sinks: list[str]) -> str:
        steps = [f"  {name}:{body}" for name, body in self.steps]
        return "\n".join(["sources:", *self.sources, *(["steps:", *steps] if steps else []), "sinks:", *sinks, ""])

    # Sources

    def _add_sources(self) -> None:
        names = self.chance.sample(["orders", "events", "clicks", "readings"], 2)
        time, columns = self._columns()
        self._add_stream(names[0], columns, time)
        if not self.is_gentle and self.chance.random() < 0.5:
            if self.chance.random() < 0.5:
                time, columns = self._columns()
            self._add_stream(names[1], columns, time)
        if self.chance.random() < 0.4:
            self._add_table()

    def _columns(self) -> tuple[str, dict[str, str]]:
        time = self.chance.choice(["at", "at", "at", "happened"])
        extra = [name for name in TYPES if name == "kind" or self.chance.random() < 0.6]
        return time, {"id": "bigint", time: "timestamp", **{name: TYPES[name] for name in extra}}

    def _add_stream(self, name: str, columns: Mapping[str, str], time: str) -> None:
        kinds = {"kafka": 60, "files": 30, "rate": 10}
        if self.is_gentle:
            kinds = {"kafka": 70, "rate": 30} if self.trigger.startswith("continuous") else {"kafka": 100}
        (kind,) = self.chance.choices(list(kinds), list(kinds.values()))
        if kind == "rate":
            columns, time = {"timestamp": "timestamp", "value": "bigint"}, "timestamp"
        ddl = ", ".join(f"{column} {type_}" for column, type_ in columns.items())
        lines = {
            "kafka": [f'kafka: {{servers: "nowhere.invalid:9092", topics: [{name}]}}', f"json: {ddl}"],
            "files": [f'files: {{path: in/{name}, format: json, schema: "{ddl}"}}'],
            "rate": ["rate: {}"],
        }[kind]
        has_watermark = self.chance.random() < 0.65
        if self.is_gentle and self.trigger.startswith("continuous"):
            has_watermark = False
        if has_watermark:
            lines = [*lines, f"watermark: {{column: {time}, delay: 10 minutes}}"]
        self._add_source(name, lines, Rows(name, columns, time, has_watermark))
        self.parts.append(f"source:{kind}{'+watermark' if has_watermark else ''}")

    def _add_table(self) -> None:
        columns = {"id": "bigint", "name": "string", "kind": "string", "since": "timestamp"}
        ddl = ", ".join(f"{column} {type_}" for column, type_ in columns.items())
        line = f'files: {{path: in/names, format: json, schema: "{ddl}"}}'
        self._add_source("names", [line, "static: true"], Rows("names", columns, "since", is_static=True))
        self.parts.append("table")

    def _add_source(self, name: str, lines: list[str], rows: Rows) -> None:
        self.sources += [f"  {name}:", *(f"    {line}" for line in lines)]
        self.rows[name] = rows

    # Steps

    def _add_steps(self) -> str:
        """Chain steps; the name of the last."""
        last = next(iter(self.rows))
        count = self.chance.choices([0, 1, 2, 3], [5, 45, 32, 18])[0]
        for number in range(1, count + 1):
            name = f"step_{number}"
            is_stateful = not self.is_gentle and self.chance.random() < 0.1
            if not is_stateful or not self._add_stateful_step(name, self.rows[last]):
                self._add_sql_step(name, self.rows[last], number)
            last = name
        return last

    def _add_sql_step(self, name: str, rows: Rows, number: int) -> None:
        scope = Scope(self.chance, rows, self._other(rows), self.rows.get("names"), number)
        is_plain = self.is_gentle or (number > 1 and self.chance.random() < 0.2)
        shapes = GENTLE if self.is_gentle else PLAIN if is_plain else SHAPES
        query = choose_query(scope, shapes)
        self.steps.append((name, f" |\n    {query.sql}"))
        self.rows[name] = replace(query.rows, name=name)
        label, *written = query.label.split("+")
        shape, *aggregate = label.split("/")
        self.parts += [f"sql:{shape}", *(f"aggregate:{name}" for name in aggregate)]
        self.parts += [f"written:{name}" for name in written]

    def _other(self, rows: Rows) -> Rows:
        """Another stream, or the same again."""
        sources = [each for each in self.rows.values() if not each.is_static and not each.name.startswith("step_")]
        if len(sources) > 1 and self.chance.random() < 0.75:
            return sources[1]
        others = [each for each in self.rows.values() if not each.is_static and each.name != rows.name]
        return self.chance.choice(others or [rows])

    def _add_stateful_step(self, name: str, rows: Rows) -> bool:
        keys = rows.of(*KEYS)
        if not keys:
            return False
        if rows.of("timestamp") and rows.of(*NUMBERS) and self.chance.random() < 0.35:
            return self._add_running(name, rows, keys)
        chosen, remember = [self.chance.choice(keys)], self.chance.choice(["", "", ", remember: forever"])
        if rows.time and self.chance.random() < 0.4:
            chosen.append(rows.time)
        self.steps.append((name, f" {{dedupe: {{from: {rows.name}, keys: [{', '.join(chosen)}]{remember}}}}}"))
        self.rows[name] = replace(rows, name=name)
        label = f"dedupe{'-forever' if remember else ''}{'-by-time' if len(chosen) > 1 else ''}"
        self.parts.append(f"step:{label}{'' if rows.has_watermark else '-without-watermark'}")
        return True

    def _add_running(self, name: str, rows: Rows, keys: list[str]) -> bool:
        time, number = rows.time or rows.of("timestamp")[0], self.chance.choice(rows.of(*NUMBERS))
        by = f", by: [{self.chance.choice(keys)}]" if self.chance.random() < 0.8 else ""
        total = self.chance.choice([f"sum({number})", f"max({number})", "count(*)"])
        options = f"from: {rows.name}{by}, order_by: {time}, totals: {{total_{name}: {total}}}"
        self.steps.append((name, f" {{running: {{{options}}}}}"))
        self.rows[name] = replace(rows, name=name, columns={**rows.columns, f"total_{name}": "bigint"})
        self.parts.append(f"step:running{'' if rows.has_watermark else '-without-watermark'}")
        return True

    # Sinks

    def _sink(self, name: str, rows: Rows, trigger: str) -> str:
        mode = self._mode(rows, trigger)
        fitting = [kind for kind, (_, modes) in _SINKS.items() if mode in modes]
        if not trigger.startswith(("default", "1", "once", "available")):
            fitting = [kind for kind in fitting if kind in _NATIVE] or list(_NATIVE)
        kind = self.chance.choice(fitting if self.is_gentle or self.chance.random() < 0.93 else list(_SINKS))
        connector = _SINKS[kind][0].format(name=f"{name}_rows", format=self.chance.choice(["parquet", "json"]))
        self.parts += [f"sink:{kind}", f"mode:{mode}", f"trigger:{trigger}"]
        return f"  {name}: {{from: {rows.name}, {connector}, mode: {mode}, trigger: {trigger}}}"

    def _mode(self, rows: Rows, trigger: str) -> str:
        modes = {"append": 74, "update": 21, "complete": 5}
        if rows.is_grouped:
            modes = (
                {"append": 50, "update": 27, "complete": 23}
                if rows.has_watermark
                else {"append": 18, "update": 44, "complete": 38}
            )
        if trigger.startswith("real-time"):
            modes = {"update": 90, "append": 7, "complete": 3}
        return self.chance.choices(list(modes), list(modes.values()))[0]

    # Mistakes

    def _make_mistake(self) -> None:
        """Misspell one column or function of one SQL step."""
        numbers = [number for number, (_, body) in enumerate(self.steps) if body.startswith(" |")]
        if not numbers:
            return
        number = self.chance.choice(numbers)
        name, body = self.steps[number]
        words = [
            *re.finditer(r"\b(id|kind|amount|score|at|happened|tags|value|count|sum|max|avg|upper|window)\b(?!')", body)
        ]
        if words:
            word = self.chance.choice(words)
            self.steps[number] = (name, f"{body[: word.end()]}x{body[word.end() :]}")
            self.parts.append("mistake")
