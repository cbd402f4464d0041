"""penstock test"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from penstock.cli import said, say
from penstock.errors import CallError
from penstock.testing.file_watcher import watch as watch_files
from penstock.testing.suites import Suite, discover
from penstock.text import did_you_mean

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.model import Pipeline
    from penstock.testing.difference import Line
    from penstock.testing.result import Result

_COLOURS = {"missing": "red", "unexpected": "green", "different": "yellow", "order": "yellow", "says": None}
_POLL_SECONDS = 0.2
_AT_ONCE = 3


@click.command(short_help="Run the tests of pipelines on example rows.")
@click.argument("paths", nargs=-1, metavar="[FILE_OR_FOLDER]...", type=click.Path())
@click.option("-k", "text", default="", metavar="TEXT", help="Only tests whose name has this text in it.")
@click.option("--watch", is_flag=True, help="Keep Spark warm and run again what a saved file changes.")
@click.option("--record", "sink", metavar="SINK", help="Print the tests with the rows that SINK writes as expected.")
@click.option("--json", "as_json", is_flag=True, help="Outcomes as JSON on standard output.")
def command(paths: Sequence[str], text: str, watch: bool, sink: str | None, as_json: bool) -> None:
    """Run the tests of pipelines: those in the file and in NAME_test.yaml beside it; of folders, all below them.

    No broker and no waiting: given rows are decoded as the real source decodes them, and batches run when they are fed.

    Example: penstock test trades.yaml -k late
    """
    if watch and (sink or as_json):
        raise CallError("--watch shows results as they come; leave --record and --json out")
    asked = Asked(tuple(paths or ["."]), text)
    suites = asked.suites()
    if watch:
        _watch(asked, suites)
        return
    if sink:
        _record(suites, sink)
        return
    report = _run(suites, as_json=as_json)
    sys.exit(0 if report.passed else 1)


@dataclass(frozen=True)
class Asked:
    """What the command was called with."""

    paths: tuple[str, ...]
    text: str = ""

    def suites(self) -> list[Suite]:
        """The tests that are meant, as the files are now."""
        return [suite.only(self.text) for suite in discover(self.paths)]


@dataclass(frozen=True)
class _Report:
    """Every outcome, and what kept tests from running."""

    outcomes: Sequence[Result]
    broken: Sequence[Suite]

    @property
    def passed(self) -> bool:
        """Whether there were tests and all of them passed."""
        return bool(self.outcomes) and not self.broken and all(outcome.passed for outcome in self.outcomes)


def _run(suites: Sequence[Suite], *, as_json: bool) -> _Report:
    began = time.perf_counter()
    broken = _said_broken(suites)
    outcomes: list[Result] = []
    if any(suite.trials for suite in suites):
        from penstock.testing.spark import quick_session

        say("starting Spark")
        with quick_session(_groups(suites)) as spark:
            outcomes = run_suites(suites, spark, (lambda _: None) if as_json else click.echo)
    elif not broken:
        say("no tests found; write 'tests:' in the pipeline's file, or NAME_test.yaml beside it")
    if as_json:
        click.echo(json.dumps([_as_dict(outcome) for outcome in outcomes], indent=2, default=str))
    elif outcomes:
        click.echo(_summary(outcomes, time.perf_counter() - began))
    return _Report(outcomes, broken)


def run_suites(suites: Iterable[Suite], spark: SparkSession, show: Callable[[str], None]) -> list[Result]:
    """Run every test, some of a file at a time; a line each, in file order."""
    outcomes: list[Result] = []
    for suite in suites:
        if suite.pipeline is not None and suite.trials:
            show(str(suite.file))
            for outcome in _outcomes(suite, suite.pipeline, spark):
                outcomes.append(outcome)
                show(_shown(outcome))
    return outcomes


def _outcomes(suite: Suite, pipeline: Pipeline, spark: SparkSession) -> Iterator[Result]:
    from concurrent.futures import ThreadPoolExecutor

    from penstock.testing.result import run

    # A small batch is mostly waiting for one thread of Spark: three at once take half the time on two cores.
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        yield from pool.map(lambda trial: run(trial, pipeline, spark), suite.trials)


def _shown(outcome: Result) -> str:
    word = click.style("ok  ", fg="green") if outcome.passed else click.style("FAIL", fg="red", bold=True)
    lines = [f"  {word}  {outcome.trial.name}  ({outcome.seconds:.2f} s)"]
    if not outcome.passed:
        lines.append(f"        {outcome.trial.at}")
    for problem in outcome.problems:
        lines.append(f"        {problem.where}")
        lines += [f"          {_coloured(line)}" for line in problem.lines]
    return "\n".join(lines)


def _coloured(line: Line) -> str:
    return click.style(str(line), fg=_COLOURS[line.mark])


def _summary(outcomes: Sequence[Result], seconds: float) -> str:
    failed = sum(not outcome.passed for outcome in outcomes)
    tests = "1 test" if len(outcomes) == 1 else f"{len(outcomes)} tests"
    text = f"{tests}: {len(outcomes) - failed} passed, {failed} failed in {seconds:.1f} s"
    return click.style(text, fg="red" if failed else "green")


def _said_broken(suites: Sequence[Suite]) -> list[Suite]:
    broken = [suite for suite in suites if suite.findings]
    for suite in broken:
        for finding in suite.findings:
            say(said(finding))
    return broken


def _groups(suites: Iterable[Suite]) -> list[str]:
    return [group for suite in suites if suite.pipeline for group in suite.pipeline.jar_groups]


def _as_dict(outcome: Result) -> dict[str, object]:
    return {
        "file": outcome.trial.at.file,
        "line": outcome.trial.at.line,
        "name": outcome.trial.name,
        "passed": outcome.passed,
        "seconds": round(outcome.seconds, 3),
        "problems": [
            {"says": problem.where, "rows": [{"mark": line.mark, "text": line.text} for line in problem.lines]}
            for problem in outcome.problems
        ],
    }


def _record(suites: Sequence[Suite], sink: str) -> None:
    if _said_broken(suites):
        sys.exit(1)
    meant = [suite for suite in suites if suite.pipeline and suite.trials]
    if len(meant) != 1:
        raise CallError(f"--record is for the tests of one pipeline, and {len(meant)} have some here; name its file")
    pipeline = meant[0].pipeline
    assert pipeline is not None
    names = [each.name for each in pipeline.sinks]
    if sink not in names:
        raise CallError(f"{pipeline.name} has no sink {sink!r}; {did_you_mean(sink, names)}")
    from penstock.testing.recorded import recorded
    from penstock.testing.result import run
    from penstock.testing.spark import quick_session

    say("starting Spark")
    with quick_session(pipeline.jar_groups) as spark:
        outcomes = [run(trial, pipeline, spark, record=(sink,)) for trial in meant[0].trials]
    failed = [outcome for outcome in outcomes if not outcome.written]
    for outcome in failed:
        say(outcome.text)
    click.echo(recorded([outcome for outcome in outcomes if outcome.written], sink), nl=False)
    sys.exit(1 if failed else 0)


def _watch(asked: Asked, suites: Sequence[Suite]) -> None:
    from penstock.testing.spark import groups_at_hand, quick_session

    say("starting Spark")
    with quick_session([*_groups(suites), *groups_at_hand()]) as spark:
        _said_broken(suites)
        outcomes = run_suites(suites, spark, click.echo)
        say(f"{_summary(outcomes, sum(each.seconds for each in outcomes))}; waiting for files to be saved, Ctrl-C ends")
        with suppress(KeyboardInterrupt):
            follow(asked, spark, _sleep, Last(suites, outcomes))


class Last:
    """The tests as they were run last, and which of them passed."""

    def __init__(self, suites: Iterable[Suite] = (), outcomes: Iterable[Result] = ()) -> None:
        self._suites: dict[Path, Suite] = {}
        self._passed: dict[Path, set[str]] = {}
        self.note(suites, outcomes)

    def note(self, suites: Iterable[Suite], outcomes: Iterable[Result]) -> None:
        """Remember a run of these suites."""
        results = {(outcome.trial.at.file, outcome.trial.name): outcome.passed for outcome in outcomes}
        for suite in suites:
            before = self._passed.get(suite.file, set())
            trials = ((trial.name, results.get((trial.at.file, trial.name))) for trial in suite.trials)
            self._passed[suite.file] = {name for name, good in trials if good or (good is None and name in before)}
            self._suites[suite.file] = suite

    def changed(self, suite: Suite) -> Suite:
        """What of a suite has to be run again."""
        return suite.changed(self._suites.get(suite.file), self._passed.get(suite.file, ()))


def follow(asked: Asked, spark: SparkSession, waited: Callable[[], bool], last: Last | None = None) -> None:
    """Run again what a saved file changes, for as long as `waited` says."""
    known = last or Last()

    def files() -> Iterable[Path]:
        return [file for suite in discover(asked.paths) for file in suite.files]

    def again(saved: frozenset[Path]) -> None:
        began = time.perf_counter()
        meant = [suite for suite in asked.suites() if saved.intersection(suite.files)]
        _said_broken(meant)
        python = {file for file in saved if file.suffix == ".py"}
        due = [suite if python.intersection(suite.files) else known.changed(suite) for suite in meant]
        outcomes = run_suites(due, spark, click.echo)
        known.note(meant, outcomes)
        if outcomes:
            click.echo(_summary(outcomes, time.perf_counter() - began))

    watch_files(files, again, waited)


def _sleep() -> bool:
    time.sleep(_POLL_SECONDS)
    return True
