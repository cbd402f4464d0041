"""A trial is run, and what came of it is told."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.errors import PenstockError
from penstock.model import Pipeline, closest
from penstock.testing.bench import Bench
from penstock.testing.case import Case, Expected
from penstock.testing.difference import Line, compare
from penstock.testing.values import Row
from penstock.text import did_you_mean, join_words

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Tables = Mapping[str, tuple[tuple[Row, ...], ...]]


@dataclass(frozen=True)
class Problem:
    """One thing that is not as expected: where, and the lines that show it."""

    where: str
    lines: tuple[Line, ...] = ()

    def __str__(self) -> str:
        return "\n".join([self.where, *(f"  {line}" for line in self.lines)])


@dataclass(frozen=True)
class Result:
    """What came of a trial."""

    trial: Case
    seconds: float
    problems: tuple[Problem, ...] = ()
    written: Tables = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Whether everything was as expected."""
        return not self.problems

    @property
    def text(self) -> str:
        """Everything that was not as expected, with the line of the test."""
        return "\n".join([f"{self.trial.at}: {self.trial.name}", *map(str, self.problems)])


def run(trial: Case, pipeline: Pipeline, spark: SparkSession, *, record: Sequence[str] = ()) -> Result:
    """Run a trial on a bench of its own; `record` names sinks whose rows are wanted though none are expected."""
    began = time.perf_counter()
    failure: PenstockError | None = None
    problems: list[Problem] = []
    written: Tables = {}
    try:
        with Bench(pipeline, spark, sinks=_sinks(trial, pipeline, record)) as bench:
            try:
                _feed(bench, trial)
            except PenstockError as error:
                failure = error
            if failure is None or trial.error:
                problems += _differences(bench, trial, pipeline, finished=failure is None)
                written = _written(bench, trial, record)
    except PenstockError as error:
        failure = error
    return Result(trial, time.perf_counter() - began, (*_failures(trial, failure), *problems), written)


def _sinks(trial: Case, pipeline: Pipeline, record: Sequence[str]) -> list[str]:
    """The sinks that a test names, and those that read what it counts; all of them when an error is expected."""
    named = {*trial.expect, *trial.late_rows, *trial.state_rows, *record}
    if trial.error or not (named or trial.bad_records):
        return [sink.name for sink in pipeline.sinks]
    for source in trial.bad_records:
        readers = [sink.name for sink in pipeline.sinks if source in pipeline.upstream(sink.reads)]
        named |= set() if named & set(readers) else set(readers[:1])
    return [sink.name for sink in pipeline.sinks if sink.name in named]


def _feed(bench: Bench, trial: Case) -> None:
    for number, batch in enumerate(trial.batches):
        if number in trial.restarts:
            bench.restart()
        if number in trial.crashes:
            bench.crash(trial.crashes[number])
        bench.feed_all(batch)


def _failures(trial: Case, failure: PenstockError | None) -> Iterator[Problem]:
    if failure is None and trial.error:
        yield Problem(f"expected an error with {trial.error!r}; there was none")
    elif failure is not None and trial.error and trial.error not in str(failure):
        yield Problem(f"expected an error with {trial.error!r}; found: {failure}")
    elif failure is not None and not trial.error:
        yield Problem(str(failure))


def _differences(bench: Bench, trial: Case, pipeline: Pipeline, *, finished: bool) -> Iterator[Problem]:
    for sink, expected in trial.expect.items():
        unknown = list(_unknown_columns(sink, expected, bench.columns(sink), pipeline))
        yield from unknown or _rows(bench, trial, sink, expected)
    if not finished:
        return
    for source, count in trial.bad_records.items():
        yield from _count("bad records", f"source {source!r}", count, bench.bad_records.get(source, 0))
    for sink, count in trial.late_rows.items():
        yield from _count("late rows", f"sink {sink!r}", count, bench.late_rows(sink))
    for sink, count in trial.state_rows.items():
        yield from _count("rows in its state", f"sink {sink!r}", count, bench.state_rows(sink))


def _unknown_columns(sink: str, expected: Expected, columns: Sequence[str], pipeline: Pipeline) -> Iterator[Problem]:
    for batch, table in enumerate(expected.tables):
        for at, row in enumerate(table):
            for name in row:
                if name not in columns:
                    place = closest(pipeline.places, (*expected.place(batch, at), name)) or pipeline.at
                    fix = did_you_mean(name, columns) or f"it has {join_words(columns, 'and')}"
                    yield Problem(f"{place}: sink {sink!r} has no column {name!r}; {fix}")


def _rows(bench: Bench, trial: Case, sink: str, expected: Expected) -> Iterator[Problem]:
    for batch, table in enumerate(expected.tables):
        found = bench.rows(sink, batch if expected.per_batch else None)
        difference = compare(table, found, ordered=trial.ordered)
        if difference:
            where = f"sink {sink!r}, batch {batch}" if expected.per_batch else f"sink {sink!r}, in the end"
            yield Problem(f"{where}: expected {_counted(len(table))}, found {len(found)}", tuple(difference.lines))


def _count(what: str, where: str, expected: int, found: int) -> Iterator[Problem]:
    if expected != found:
        yield Problem(f"{where}, {what}: expected {expected}, found {found}")


def _written(bench: Bench, trial: Case, record: Sequence[str]) -> Tables:
    fed = range(bench.batches)
    return {sink: tuple(tuple(bench.rows(sink, at)) for at in fed) for sink in dict.fromkeys([*trial.expect, *record])}


def _counted(count: int) -> str:
    return f"{count} row" if count == 1 else f"{count} rows"
