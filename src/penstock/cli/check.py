"""penstock check"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from penstock.cli import MOST_FINDINGS, CheckedFile, findings_of, list_findings, print_status
from penstock.errors import CallError
from penstock.load.files import is_pipeline, pipeline_of, walk_pipelines
from penstock.model import Finding, Pipeline, errors

_RECURSIVE = "..."


@dataclass(frozen=True)
class _Report:
    """How findings are printed, and what counts as a failure."""

    strict: bool
    most: int

    def print_text(self, checked: Sequence[CheckedFile]) -> None:
        """Print findings to standard error, and a line for each pipeline without a failure."""
        findings = _all_findings(checked)
        if findings:
            print_status(list_findings(findings, self.most))
        for file in checked:
            if file.pipeline is not None and not self.failures(file.findings):
                click.echo(_summarize(file.pipeline, file))
        if wrong := self.failures(findings):
            print_status(f"why: penstock explain {wrong[0].rule}")

    def failures(self, findings: Sequence[Finding]) -> Sequence[Finding]:
        """The findings that make the exit code 1."""
        return findings if self.strict else errors(findings)


@click.command(short_help="Check pipelines without starting Spark.")
@click.argument("files", nargs=-1, metavar="[FILE_OR_FOLDER]...", type=click.Path(allow_dash=True))
@click.option(
    "--deep",
    is_flag=True,
    help="Also check SQL, columns, types and streaming limits with Spark. Starts no query, contacts no broker.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "github", "sarif"]),
    help="How findings are printed (default: text); all but text go to standard output.",
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option("--strict", is_flag=True, help="Exit with 1 for warnings too.")
@click.option(
    "--max",
    "most",
    type=click.IntRange(min=0),
    help=f"How many findings are printed as text (default: {MOST_FINDINGS}); 0 for all.",
)
@click.option(
    "--skip-others",
    is_flag=True,
    help="Skip FILEs that are not pipelines, and check the pipeline of a file of tests; for commit hooks.",
)
def command(
    files: Sequence[str],
    deep: bool,
    form: str | None,
    as_json: bool,
    strict: bool,
    most: int | None,
    skip_others: bool,
) -> None:
    """Check pipelines in under a second: FILEs, those of FOLDERs and their sub-folders, or standard input (-).

    FOLDER/... is the same as FOLDER.

    Example: penstock check trades.yaml
    """
    form = _choose_format(form, as_json)
    if most is not None and form != "text":
        raise CallError(f"--max limits text only, and --format {form} prints every finding; remove one of them")
    report = _Report(strict, MOST_FINDINGS if most is None else most)
    checked = [_check(file, deep) for file in _expand(files or (".",), skip_others)]
    if form == "text":
        report.print_text(checked)
    else:
        _print_for_program(form, checked)
    if report.failures(_all_findings(checked)):
        sys.exit(1)


def _choose_format(form: str | None, as_json: bool) -> str:
    if as_json and form not in (None, "json"):
        raise CallError(f"--json and --format {form} are two formats; give one of them")
    return "json" if as_json else form or "text"


def _print_for_program(form: str, checked: Sequence[CheckedFile]) -> None:
    from penstock.cli._findings import FORMATS

    text = FORMATS[form](_all_findings(checked), [each for file in checked for each in file.silenced])
    if text:
        click.echo(text)


def _all_findings(checked: Sequence[CheckedFile]) -> list[Finding]:
    return [finding for file in checked for finding in file.findings]


def _check(file: str, deep: bool) -> CheckedFile:
    checked = findings_of(file)
    if deep and checked.pipeline is not None and not errors(checked.findings):
        return _check_deep(checked.pipeline, checked)
    return checked


def _check_deep(pipeline: Pipeline, checked: CheckedFile) -> CheckedFile:
    from penstock.checks import sort_by_cause
    from penstock.checks.silences import DEEP_RULES, apply_silences
    from penstock.engine.deep_check import check_with_spark

    found = apply_silences(pipeline, check_with_spark(pipeline), DEEP_RULES)
    findings = sort_by_cause(pipeline, [*checked.findings, *found.findings])
    return CheckedFile(pipeline, findings, [*checked.silenced, *found.silenced])


def _expand(paths: Sequence[str], skip_others: bool) -> list[str]:
    """The pipelines of the arguments, each once."""
    found = (file for path in paths for file in _expand_one(path, skip_others))
    return list({file if file == "-" else os.path.realpath(file): file for file in found}.values())


def _expand_one(path: str, skip_others: bool) -> Iterator[str]:
    """The pipelines of an argument: a file, or all below a folder."""
    if path.endswith(_RECURSIVE) and Path(path).name == _RECURSIVE:
        path = str(Path(path).parent)
    if Path(path).is_dir():
        yield from map(str, walk_pipelines(Path(path)) or [Path(path)])
    elif not skip_others or path == "-" or not Path(path).exists():
        yield path
    elif is_pipeline(file := pipeline_of(Path(path))):
        yield str(file)


def _summarize(pipeline: Pipeline, checked: CheckedFile) -> str:
    counts = ((pipeline.sources, "source"), (pipeline.steps, "step"), (pipeline.sinks, "sink"))
    parts = ", ".join(_count(len(nodes), word) for nodes, word in counts)
    silenced = f", {_count(len(checked.silenced), 'finding')} silenced" if checked.silenced else ""
    return f"{pipeline.name}: {parts}: no errors found{silenced}"


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
