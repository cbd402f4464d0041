"""Runs a test and compares its results with what it expects."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.errors import PenstockError
from penstock.model import Pipeline, closest
from penstock.testing.bench import Bench
from penstock.testing.case import Case, Expected
from penstock.testing.difference import Line, Row, compare
from penstock.text import did_you_mean, join_words

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Tables = Mapping[str, tuple[tuple[Row, ...], ...]]


@dataclass(frozen=True)
class Problem:
    """One difference from what was expected: where, and the lines that show it."""

    where: str
    lines: tuple[Line, ...] = ()

    def __str__(self) -> str:
        return "\n".join([self.where, *(f"  {line}" for line in self.lines)])


@dataclass(frozen=True)
class Result:
    """The result of one test."""

    case: Case
    seconds: float
    problems: tuple[Problem, ...] = ()
    written: Tables = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Whether everything was as expected."""
        return not self.problems

    @property
    def text(self) -> str:
        """All problems, with the location of the test."""
        return "\n".join([f"{self.case.at}: {self.case.name}", *map(str, self.problems)])


def run(case: Case, pipeline: Pipeline, spark: SparkSession, *, record: Sequence[str] = ()) -> Result:
    """Run a test on its own bench; `record` names sinks whose rows to return even if none are expected."""
    started_at = time.perf_counter()
    failure: PenstockError | None = None
    problems: list[Problem] = []
    written: Tables = {}
    try:
        with Bench(pipeline, spark, sinks=_sinks(case, pipeline, record)) as bench:
            try:
                _feed(bench, case)
            except PenstockError as error:
                failure = error
            if failure is None or case.error:
                problems += _differences(bench, case, pipeline, finished=failure is None)
                written = _collect_tables(bench, case, record)
    except PenstockError as error:
        failure = error
    return Result(case, time.perf_counter() - started_at, (*_failures(case, failure), *problems), written)


def _sinks(case: Case, pipeline: Pipeline, record: Sequence[str]) -> list[str]:
    """The sinks that a test needs: those it names, a reader of each source it counts, or all if it expects an error."""
    named = {*case.expect, *case.late_rows, *case.state_rows, *record}
    if case.error or not (named or case.bad_records):
        return [sink.name for sink in pipeline.sinks]
    for source in case.bad_records:
        readers = [sink.name for sink in pipeline.sinks if source in pipeline.upstream(sink.reads)]
        named |= set() if named & set(readers) else set(readers[:1])
    return [sink.name for sink in pipeline.sinks if sink.name in named]


def _feed(bench: Bench, case: Case) -> None:
    for number, batch in enumerate(case.batches):
        if number in case.restarts:
            bench.restart()
        if number in case.crashes:
            bench.crash(case.crashes[number])
        bench.feed_all(batch)


def _failures(case: Case, failure: PenstockError | None) -> Iterator[Problem]:
    if failure is None and case.error:
        yield Problem(f"expected an error with {case.error!r}, found none")
    elif failure is not None and case.error and case.error not in str(failure):
        yield Problem(f"expected an error with {case.error!r}, found: {failure}")
    elif failure is not None and not case.error:
        yield Problem(str(failure))


def _differences(bench: Bench, case: Case, pipeline: Pipeline, *, finished: bool) -> Iterator[Problem]:
    for sink, expected in case.expect.items():
        unknown = list(_unknown_columns(sink, expected, bench.columns(sink), pipeline))
        yield from unknown or _rows(bench, case, sink, expected)
    if not finished:
        return
    for source, count in case.bad_records.items():
        yield from _count("bad records", f"source {source!r}", count, bench.bad_records.get(source, 0))
    for sink, count in case.late_rows.items():
        yield from _count("late rows", f"sink {sink!r}", count, bench.late_rows(sink))
    for sink, count in case.state_rows.items():
        yield from _count("rows in its state", f"sink {sink!r}", count, bench.state_rows(sink))


def _unknown_columns(sink: str, expected: Expected, columns: Sequence[str], pipeline: Pipeline) -> Iterator[Problem]:
    for batch, table in enumerate(expected.tables):
        for at, row in enumerate(table):
            for name in row:
                if name not in columns:
                    place = closest(pipeline.places, (*expected.place(batch, at), name)) or pipeline.at
                    fix = did_you_mean(name, columns) or f"it has {join_words(columns, 'and')}"
                    yield Problem(f"{place}: sink {sink!r} has no column {name!r}; {fix}")


def _rows(bench: Bench, case: Case, sink: str, expected: Expected) -> Iterator[Problem]:
    for batch, table in enumerate(expected.tables):
        found = bench.rows(sink, batch if expected.per_batch else None)
        difference = compare(table, found, ordered=case.ordered)
        if difference:
            where = f"sink {sink!r}, batch {batch}" if expected.per_batch else f"sink {sink!r}, in the end"
            yield Problem(f"{where}: expected {_count_rows(len(table))}, found {len(found)}", tuple(difference.lines))


def _count(what: str, where: str, expected: int, found: int) -> Iterator[Problem]:
    if expected != found:
        yield Problem(f"{where}, {what}: expected {expected}, found {found}")


def _collect_tables(bench: Bench, case: Case, record: Sequence[str]) -> Tables:
    fed = range(bench.batches)
    return {sink: tuple(tuple(bench.rows(sink, at)) for at in fed) for sink in dict.fromkeys([*case.expect, *record])}


def _count_rows(count: int) -> str:
    return f"{count} row" if count == 1 else f"{count} rows"
