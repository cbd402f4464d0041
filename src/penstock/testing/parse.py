"""Parses the tests of a file into cases, and reports everything malformed at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from penstock.model import Finding, Keys, Location, Pipeline, Source, closest
from penstock.testing import encode as columns
from penstock.testing.case import MOMENTS, Batch, Case, Expected, Given, Moment
from penstock.text import did_you_mean, join_words, show

_Parsed = TypeVar("_Parsed")

#: The keys of a test and their descriptions.
KEYS = {
    "name": "What the test shows, in a sentence.",
    "given": "Rows per source, a list per batch; text is a raw record.",
    "expect": "Rows per sink: a list per batch, or one list for the whole run. Omitted columns are not compared.",
    "ordered": "Compare the order of the rows too.",
    "bad_records": "The expected number of bad records, by source.",
    "late_rows": "The expected number of late rows, by sink.",
    "state_rows": "The expected number of rows in the state, by sink.",
    "error": "Text that the error must contain.",
    "restart": "Restart from the checkpoint before these batches, or `true` for all.",
    "crash": "Where the query dies: {batch: 1, at: after_write} or before_commit; the result must be the same.",
}


def case_schema() -> dict[str, Any]:
    """The JSON Schema of one test."""
    rows = {"type": "object", "additionalProperties": {"type": "array"}}
    counts = {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}}
    moment = {"enum": [*MOMENTS]}
    crash = {"type": "object", "properties": {"batch": {"type": "integer", "minimum": 0}, "at": moment}}
    types: dict[str, dict[str, Any]] = {
        "name": {"type": "string", "minLength": 1},
        "given": {**rows, "minProperties": 1},
        "expect": rows,
        "ordered": {"type": "boolean"},
        "bad_records": counts,
        "late_rows": counts,
        "state_rows": counts,
        "error": {"type": "string", "minLength": 1},
        "restart": {"anyOf": [{"type": "boolean"}, {"type": "array", "items": {"type": "integer", "minimum": 1}}]},
        "crash": {"anyOf": [moment, {**crash, "required": ["batch", "at"], "additionalProperties": False}]},
    }
    properties = {key: {**types[key], "description": says} for key, says in KEYS.items()}
    return {"type": "object", "properties": properties, "required": ["name", "given"], "additionalProperties": False}


def parse_cases(pipeline: Pipeline) -> tuple[list[Case], list[Finding]]:
    """The tests of a pipeline, and the findings about them, in file order."""
    findings: list[Finding] = []
    found = [_Parser(pipeline, number, case, findings).parse() for number, case in enumerate(pipeline.tests)]
    names: dict[str, Case] = {}
    for case in found:
        if names.setdefault(case.name, case) is not case:
            says = f"the test {case.name!r} already exists on line {names[case.name].at.line}"
            findings.append(Finding("test-name", case.at, says, "give each test a unique name"))
    return found, sorted(findings, key=lambda finding: finding.at)


@dataclass(frozen=True)
class _Parser:
    pipeline: Pipeline
    number: int
    case: Mapping[str, Any]
    findings: list[Finding] = field(default_factory=list)

    def parse(self) -> Case:
        """The case; what is malformed is reported and left out."""
        for key in self.case:
            if key not in KEYS:
                self._report(
                    "unknown-key", (key,), f"{self._label} does not know {key!r}", did_you_mean(str(key), KEYS)
                )
        batches = self._batches()
        return Case(
            name=self._name(),
            at=self._place(()),
            number=self.number,
            batches=batches,
            expect=self._expect(len(batches)),
            ordered=self._flag("ordered"),
            bad_records=self._counts("bad_records", "source", [source.name for source in self.pipeline.sources]),
            late_rows=self._counts("late_rows", "sink", self._sinks),
            state_rows=self._counts("state_rows", "sink", self._sinks),
            error=self._error(),
            restarts=self._restarts(len(batches)),
            crashes=self._crashes(len(batches)),
            raw=self.case,
        )

    @property
    def _label(self) -> str:
        name = self.case.get("name")
        return f"test {name!r}" if isinstance(name, str) else f"test {self.number + 1}"

    @property
    def _sinks(self) -> list[str]:
        return [sink.name for sink in self.pipeline.sinks]

    def _name(self) -> str:
        name = self.case.get("name")
        if isinstance(name, str) and name.strip():
            return name.strip()
        says = "has no name" if name is None else f"has the name {show(name)}, expected text"
        self._report("test-name", ("name",), f"test {self.number + 1} {says}", "describe in a sentence what it shows")
        return f"test {self.number + 1}"

    def _batches(self) -> tuple[Batch, ...]:
        given = self.case.get("given")
        if not isinstance(given, Mapping) or not given:
            says = f"{self._label}: 'given' is {show(given)}, expected rows by source"
            self._report("test-given", ("given",), says, f"write 'given: {{{self._example}: [[...]]}}'")
            return ()
        sources = {source.name: source for source in self.pipeline.sources}
        tables: dict[str, list[tuple[Given, ...]]] = {}
        for name, raw in given.items():
            if name not in sources:
                says = f"{self._label} gives rows to {name!r}, which is not a source"
                self._report("test-given", ("given", name), says, did_you_mean(str(name), sources))
            else:
                tables[name] = self._parse_source_rows(sources[name], raw)
        most = max(map(len, tables.values()), default=0)
        return tuple({name: table[at] for name, table in tables.items() if at < len(table)} for at in range(most))

    @property
    def _example(self) -> str:
        return self.pipeline.sources[0].name if self.pipeline.sources else "source"

    def _parse_source_rows(self, source: Source, raw: Any) -> list[tuple[Given, ...]]:
        keys: Keys = ("given", source.name)
        known = columns.row_columns(source)

        def row(value: Any, at: Keys) -> Given | None:
            return self._given_row(source, known, value, at)

        who = f"{self._label}: the rows given to {source.name!r}"
        tables: tuple[list[tuple[Given, ...]], bool] | None = self._parse_tables(raw, keys, who, row)
        return tables[0] if tables else []

    def _given_row(self, source: Source, known: tuple[str, ...] | None, value: Any, at: Keys) -> Given | None:
        who = f"{self._label}: source {source.name!r}"
        if isinstance(value, str):
            if columns.takes_text(source):
                return value
            self._report("test-given", at, f"{who} takes no raw text, found {show(value)}", "write its columns")
            return None
        if not isinstance(value, Mapping):
            self._report("test-given", at, f"{who}: a row is {show(value)}, expected columns or raw text")
            return None
        for name in value if known is not None else ():
            if name not in (known or ()):
                says = f"{who} has no column {name!r}"
                self._report("test-column", (*at, name), says, did_you_mean(str(name), known or ()))
        return value

    def _expect(self, batches: int) -> dict[str, Expected]:
        expect = self.case.get("expect")
        if expect is None:
            self._require_expectation()
            return {}
        if not isinstance(expect, Mapping):
            says = f"{self._label}: 'expect' is {show(expect)}, expected rows by sink"
            self._report("test-expect", ("expect",), says)
            return {}
        found = ((name, self._parse_sink_rows(name, raw, batches)) for name, raw in expect.items())
        return {name: expected for name, expected in found if expected is not None}

    def _require_expectation(self) -> None:
        if not any(key in self.case for key in ("bad_records", "late_rows", "state_rows", "error")):
            self._report("test-expect", (), f"{self._label} expects nothing", "add 'expect:' with rows by sink")

    def _parse_sink_rows(self, name: str, raw: Any, batches: int) -> Expected | None:
        keys: Keys = ("expect", name)
        if name not in self._sinks:
            says = f"{self._label} expects rows of {name!r}, which is not a sink"
            self._report("test-expect", keys, says, did_you_mean(str(name), self._sinks))
            return None
        who = f"{self._label}: the rows expected of {name!r}"

        def row(value: Any, at: Keys) -> Mapping[str, Any] | None:
            if isinstance(value, Mapping):
                return value
            self._report("test-expect", at, f"{who} contain {show(value)}, expected columns")
            return None

        tables = self._parse_tables(raw, keys, who, row)
        if tables is None:
            return None
        found, per_batch = tables
        if per_batch and len(found) != batches:
            says = f"{who} are for {_batches(len(found))}, but {_batches(batches)} {_is(batches)} given"
            self._report("test-expect", keys, says, "write one list per batch, or one list of rows for all")
            return None
        return Expected(tuple(found), per_batch, ("tests", self.number, *keys))

    def _parse_tables(
        self, raw: Any, keys: Keys, who: str, row: Callable[[Any, Keys], _Parsed | None]
    ) -> tuple[list[tuple[_Parsed, ...]], bool] | None:
        """The lists of rows, and whether there is one list per batch."""
        if not isinstance(raw, list | tuple):
            self._report(
                "test-rows", keys, f"{who} are {show(raw)}, expected a list of batches", "write [[...], [...]]"
            )
            return None
        nested = [isinstance(each, list | tuple) for each in raw]
        if any(nested) and not all(nested):
            at = nested.index(not nested[0])
            self._report(
                "test-rows", (*keys, at), f"{who} mix batches and rows", "write a list per batch: [[...], [...]]"
            )
            return None
        tables = raw if any(nested) else [raw]
        made: list[tuple[_Parsed, ...]] = []
        for at, table in enumerate(tables):
            start: Keys = (*keys, at) if any(nested) else keys
            rows = (row(value, (*start, number)) for number, value in enumerate(table))
            made.append(tuple(each for each in rows if each is not None))
        return made, any(nested)

    def _flag(self, key: str) -> bool:
        value = self.case.get(key, False)
        if not isinstance(value, bool):
            self._report("wrong-type", (key,), f"{self._label}: {key!r} is {show(value)}, expected true or false")
        return value is True

    def _counts(self, key: str, what: str, known: Iterable[str]) -> dict[str, int]:
        raw, names = self.case.get(key, {}), list(known)
        if not isinstance(raw, Mapping):
            says = f"{self._label}: {key!r} is {show(raw)}, expected a number by {what}"
            self._report("wrong-type", (key,), says, f"write '{key}: {{{names[0] if names else what}: 1}}'")
            return {}
        for name, count in raw.items():
            if name not in names:
                says = f"{self._label}: {key!r} names {name!r}, which is not a {what}"
                self._report("unknown-key", (key, name), says, did_you_mean(str(name), names))
            elif isinstance(count, bool) or not isinstance(count, int) or count < 0:
                says = f"{self._label}: {key!r} of {name!r} is {show(count)}, expected 0 or more"
                self._report("wrong-type", (key, name), says)
        return {name: count for name, count in raw.items() if name in names and isinstance(count, int)}

    def _error(self) -> str:
        error = self.case.get("error", "")
        if isinstance(error, str) and (error.strip() or "error" not in self.case):
            return error.strip()
        says = f"{self._label}: 'error' is {show(error)}, expected a part of the error's message"
        self._report("wrong-type", ("error",), says)
        return ""

    def _restarts(self, batches: int) -> frozenset[int]:
        raw = self.case.get("restart", False)
        if isinstance(raw, bool):
            return frozenset(range(1, batches)) if raw else frozenset()
        if isinstance(raw, list | tuple) and all(self._is_batch(each, batches) and each > 0 for each in raw):
            return frozenset(raw)
        says = f"{self._label}: 'restart' is {_show_list(raw)}, expected true or batches to restart before"
        self._report("test-restart", ("restart",), says, self._numbers(1, batches))
        return frozenset()

    def _crashes(self, batches: int) -> dict[int, Moment]:
        raw = self.case.get("crash")
        if raw is None:
            return {}
        moment: Any = raw.get("at") if isinstance(raw, Mapping) else raw
        if moment not in MOMENTS:
            says = f"{self._label}: 'crash' is at {show(moment)}, expected {join_words(MOMENTS)}"
            self._report("test-crash", ("crash",), says, "write 'crash: {batch: 1, at: after_write}'")
            return {}
        if not isinstance(raw, Mapping):
            return dict.fromkeys(range(batches), moment)
        for key in raw:
            if key not in ("batch", "at"):
                fix = did_you_mean(str(key), ("batch", "at"))
                self._report("unknown-key", ("crash", key), f"{self._label}: 'crash' does not know {key!r}", fix)
        if not self._is_batch(raw.get("batch"), batches):
            says = f"{self._label}: the batch of 'crash' is {show(raw.get('batch'))}"
            self._report("test-crash", ("crash", "batch"), says, self._numbers(0, batches))
            return {}
        return {raw["batch"]: moment}

    @staticmethod
    def _is_batch(value: Any, batches: int) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < batches

    @staticmethod
    def _numbers(first: int, batches: int) -> str:
        numbers = [str(number) for number in range(first, batches)]
        return (
            f"batches count from 0: use {join_words(numbers)}"
            if numbers
            else f"{_batches(batches)} {_is(batches)} given"
        )

    def _place(self, keys: Keys) -> Location:
        return closest(self.pipeline.places, ("tests", self.number, *keys), 1) or self.pipeline.at

    def _report(self, rule: str, keys: Keys, says: str, fix: str = "") -> None:
        self.findings.append(Finding(rule, self._place(keys), says, fix))


def _batches(count: int) -> str:
    return f"{count} batch" if count == 1 else f"{count} batches"


def _is(count: int) -> str:
    return "is" if count == 1 else "are"


def _show_list(raw: Any) -> str:
    return str(list(raw)) if isinstance(raw, list | tuple) else show(raw)
