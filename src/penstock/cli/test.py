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

from penstock.cli import format_finding, print_status
from penstock.errors import CallError
from penstock.testing.suites import Suite, discover
from penstock.text import did_you_mean

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.model import Pipeline
    from penstock.testing.difference import Line
    from penstock.testing.result import Result


_COLOURS = {"missing": "red", "unexpected": "green", "different": "yellow", "order": "yellow", "says": None}
_POLL_SECONDS = 0.2
_PARALLEL = 3


@click.command(short_help="Run the tests of pipelines on example rows.")
@click.argument("paths", nargs=-1, metavar="[FILE_OR_FOLDER]...", type=click.Path())
@click.option("-k", "text", default="", metavar="TEXT", help="Only tests whose name contains this text.")
@click.option("--watch", is_flag=True, help="Keep Spark running and rerun the affected tests when a file is saved.")
@click.option(
    "--record", "sink", metavar="SINK", help="Print the tests, with the rows that SINK writes as the expected ones."
)
@click.option("--json", "as_json", is_flag=True, help="Print results as JSON.")
def command(paths: Sequence[str], text: str, watch: bool, sink: str | None, as_json: bool) -> None:
    """Run the tests of pipelines: those in the file and in NAME_test.yaml next to it; in folders, all below them.

    Needs no broker and no waiting: rows are decoded as by the real source, and a batch runs as soon as it is fed.

    Example: penstock test trades.yaml -k late
    """
    if watch and (sink or as_json):
        raise CallError("--watch prints results continuously; remove --record and --json")
    selection = Selection(tuple(paths or ["."]), text)
    suites = selection.suites()
    if watch:
        _watch(selection, suites)
        return
    if sink:
        _record(suites, sink)
        return
    report = _run(suites, as_json=as_json)
    sys.exit(0 if report.passed else 1)


@dataclass(frozen=True)
class Selection:
    """The tests to run: paths, and a text in their names."""

    paths: tuple[str, ...]
    text: str = ""

    def suites(self) -> list[Suite]:
        """The selected tests, as the files are now."""
        return [suite.filter(self.text) for suite in discover(self.paths)]


@dataclass(frozen=True)
class _Report:
    """All results, and the suites that could not run."""

    results: Sequence[Result]
    broken: Sequence[Suite]

    @property
    def passed(self) -> bool:
        """Whether there were tests and all passed."""
        return bool(self.results) and not self.broken and all(result.passed for result in self.results)


def _run(suites: Sequence[Suite], *, as_json: bool) -> _Report:
    started_at = time.perf_counter()
    broken = _print_findings(suites)
    results: list[Result] = []
    if any(suite.cases for suite in suites):
        from penstock.testing.spark import quick_session

        print_status("starting Spark")
        with quick_session(_groups(suites)) as spark:
            results = run_suites(suites, spark, (lambda _: None) if as_json else click.echo)
    elif not broken:
        print_status("no tests found; write 'tests:' in the pipeline's file, or NAME_test.yaml next to it")
    if as_json:
        click.echo(json.dumps([_as_dict(result) for result in results], indent=2, default=str))
    elif results:
        click.echo(_summary(results, time.perf_counter() - started_at))
    return _Report(results, broken)


def run_suites(suites: Iterable[Suite], spark: SparkSession, show: Callable[[str], None]) -> list[Result]:
    """Run every test, a few of a file in parallel; show a line for each, in file order."""
    results: list[Result] = []
    for suite in suites:
        if suite.pipeline is not None and suite.cases:
            show(str(suite.file))
            for result in _run_cases(suite, suite.pipeline, spark):
                results.append(result)
                show(_format(result))
    return results


def _run_cases(suite: Suite, pipeline: Pipeline, spark: SparkSession) -> Iterator[Result]:
    from concurrent.futures import ThreadPoolExecutor

    from penstock.testing.result import run

    # A small batch mostly waits for one Spark thread; three in parallel take half the time on two cores.
    with ThreadPoolExecutor(_PARALLEL) as pool:
        yield from pool.map(lambda case: run(case, pipeline, spark), suite.cases)


def _format(result: Result) -> str:
    word = click.style("ok  ", fg="green") if result.passed else click.style("FAIL", fg="red", bold=True)
    lines = [f"  {word}  {result.case.name}  ({result.seconds:.2f} s)"]
    if not result.passed:
        lines.append(f"        {result.case.at}")
    for problem in result.problems:
        lines.append(f"        {problem.where}")
        lines += [f"          {_colour(line)}" for line in problem.lines]
    return "\n".join(lines)


def _colour(line: Line) -> str:
    return click.style(str(line), fg=_COLOURS[line.mark])


def _summary(results: Sequence[Result], seconds: float) -> str:
    failed = sum(not result.passed for result in results)
    tests = "1 test" if len(results) == 1 else f"{len(results)} tests"
    text = f"{tests}: {len(results) - failed} passed, {failed} failed in {seconds:.1f} s"
    return click.style(text, fg="red" if failed else "green")


def _print_findings(suites: Sequence[Suite]) -> list[Suite]:
    broken = [suite for suite in suites if suite.findings]
    for suite in broken:
        for finding in suite.findings:
            print_status(format_finding(finding))
    return broken


def _groups(suites: Iterable[Suite]) -> list[str]:
    return [group for suite in suites if suite.pipeline for group in suite.pipeline.jar_groups]


def _as_dict(result: Result) -> dict[str, object]:
    return {
        "file": result.case.at.file,
        "line": result.case.at.line,
        "column": result.case.at.column,
        "name": result.case.name,
        "passed": result.passed,
        "seconds": round(result.seconds, 3),
        "problems": [
            {"says": problem.where, "rows": [{"mark": line.mark, "text": line.text} for line in problem.lines]}
            for problem in result.problems
        ],
    }


def _record(suites: Sequence[Suite], sink: str) -> None:
    if _print_findings(suites):
        sys.exit(1)
    selected = [suite for suite in suites if suite.pipeline and suite.cases]
    if len(selected) != 1:
        raise CallError(f"--record needs the tests of one pipeline, found {len(selected)}; give its file")
    pipeline = selected[0].pipeline
    assert pipeline is not None
    names = [each.name for each in pipeline.sinks]
    if sink not in names:
        raise CallError(f"{pipeline.name} has no sink {sink!r}; {did_you_mean(sink, names)}")
    from penstock.testing.recording import format_recording
    from penstock.testing.result import run
    from penstock.testing.spark import quick_session

    print_status("starting Spark")
    with quick_session(pipeline.jar_groups) as spark:
        results = [run(case, pipeline, spark, record=(sink,)) for case in selected[0].cases]
    failed = [result for result in results if not result.written]
    for result in failed:
        print_status(result.text)
    click.echo(format_recording([result for result in results if result.written], sink), nl=False)
    sys.exit(1 if failed else 0)


def _watch(selection: Selection, suites: Sequence[Suite]) -> None:
    from penstock.testing.spark import groups_at_hand, quick_session

    print_status("starting Spark")
    with quick_session([*_groups(suites), *groups_at_hand()]) as spark:
        _print_findings(suites)
        results = run_suites(suites, spark, click.echo)
        print_status(
            f"{_summary(results, sum(each.seconds for each in results))}; waiting for changes, press Ctrl-C to stop"
        )
        with suppress(KeyboardInterrupt):
            follow(selection, spark, _sleep, LastRun(suites, results))


class LastRun:
    """The last run: its suites, and which tests passed."""

    def __init__(self, suites: Iterable[Suite] = (), results: Iterable[Result] = ()) -> None:
        self._suites: dict[Path, Suite] = {}
        self._passed: dict[Path, set[str]] = {}
        self.remember(suites, results)

    def remember(self, suites: Iterable[Suite], results: Iterable[Result]) -> None:
        """Store the results of a run."""
        passed = {(result.case.at.file, result.case.name): result.passed for result in results}
        for suite in suites:
            before = self._passed.get(suite.file, set())
            cases = ((case.name, passed.get((case.at.file, case.name))) for case in suite.cases)
            self._passed[suite.file] = {name for name, good in cases if good or (good is None and name in before)}
            self._suites[suite.file] = suite

    def select_for_rerun(self, suite: Suite) -> Suite:
        """The tests of a suite that must be rerun."""
        return suite.select_for_rerun(self._suites.get(suite.file), self._passed.get(suite.file, ()))


def follow(selection: Selection, spark: SparkSession, wait: Callable[[], bool], last: LastRun | None = None) -> None:
    """Rerun the affected tests when a file is saved, until `wait` returns False."""
    known = last or LastRun()

    def files() -> Iterable[Path]:
        return [file for suite in discover(selection.paths) for file in suite.files]

    def rerun(saved: frozenset[Path]) -> None:
        started_at = time.perf_counter()
        selected = [suite for suite in selection.suites() if saved.intersection(suite.files)]
        _print_findings(selected)
        python = {file for file in saved if file.suffix == ".py"}
        to_run = [suite if python.intersection(suite.files) else known.select_for_rerun(suite) for suite in selected]
        results = run_suites(to_run, spark, click.echo)
        known.remember(selected, results)
        if results:
            click.echo(_summary(results, time.perf_counter() - started_at))

    watch_files(files, rerun, wait)


def _sleep() -> bool:
    time.sleep(_POLL_SECONDS)
    return True


Stamps = dict[Path, tuple[int, int]]


def stamps(files: Iterable[Path]) -> Stamps:
    """Modification time and size of each file that exists."""
    found: Stamps = {}
    for file in files:
        try:
            status = file.stat()
        except OSError:
            continue
        found[file] = (status.st_mtime_ns, status.st_size)
    return found


def diff_stamps(before: Stamps, now: Stamps) -> frozenset[Path]:
    """Files that were created, removed or saved."""
    return frozenset(file for file in before.keys() | now.keys() if before.get(file) != now.get(file))


def watch_files(
    files: Callable[[], Iterable[Path]], act: Callable[[frozenset[Path]], None], wait: Callable[[], bool]
) -> None:
    """Call `act` with the changed files after every `wait`, until `wait` returns False.

    A file saved while `act` runs is reported in the next call.
    """
    seen = stamps(files())
    while wait():
        now = stamps(files())
        saved = diff_stamps(seen, now)
        seen = now
        if saved:
            act(saved)
