"""penstock check"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from penstock.checks import SilencedFinding
from penstock.cli import MOST_FINDINGS, CheckedFile, findings_of, list_findings, print_status
from penstock.cli.explain import Rule, rules
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
    from penstock.cli.check import FORMATS

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


_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_ESCAPES = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY_ESCAPES = {**_ESCAPES, ":": "%3A", ",": "%2C"}


def to_json(findings: Iterable[Finding], silenced: Iterable[SilencedFinding]) -> str:  # noqa: ARG001
    """A list of findings; silenced ones are left out."""
    return json.dumps([_as_dict(finding) for finding in findings], indent=2)


def _as_dict(finding: Finding) -> dict[str, object]:
    return {
        "file": finding.at.file,
        "line": finding.at.line,
        "column": finding.at.column,
        "rule": finding.rule,
        "severity": finding.severity,
        "says": finding.says,
        "fix": finding.fix,
    }


def to_github(findings: Iterable[Finding], silenced: Iterable[SilencedFinding]) -> str:  # noqa: ARG001
    """A workflow command for each finding, which GitHub shows at its line; silenced ones are left out."""
    return "\n".join(_as_command(finding) for finding in findings)


def _as_command(finding: Finding) -> str:
    properties = {
        "file": _relative_path(finding.at.file),
        "line": str(finding.at.line),
        "col": str(finding.at.column),
        "title": finding.rule,
    }
    written = ",".join(f"{name}={_escape(value, _PROPERTY_ESCAPES)}" for name, value in properties.items())
    return f"::{finding.severity} {written}::{_escape(_message(finding), _ESCAPES)}"


def _escape(text: str, escapes: Mapping[str, str]) -> str:
    return "".join(escapes.get(char, char) for char in text)


def to_sarif(findings: Iterable[Finding], silenced: Iterable[SilencedFinding]) -> str:
    """A log with one run: every rule, and a result for each finding; silenced ones are suppressed results."""
    known = rules()
    numbers = {name: number for number, name in enumerate(known)}
    results = [_as_result(finding, numbers) for finding in findings]
    results += (_as_result(each.finding, numbers, [_as_suppression(each)]) for each in silenced)
    driver = {
        "name": "Penstock",
        "semanticVersion": metadata.version("penstock"),
        "rules": [_as_descriptor(rule) for rule in known.values()],
    }
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def _as_descriptor(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.name,
        "shortDescription": {"text": rule.claim},
        "fullDescription": {"text": rule.why},
        "help": {"text": f"{rule.why}\n\npenstock explain {rule.name}"},
    }


def _as_result(
    finding: Finding, numbers: Mapping[str, int], suppressions: Sequence[dict[str, str]] = ()
) -> dict[str, Any]:
    region = {"startLine": finding.at.line, "startColumn": finding.at.column}
    location = {"artifactLocation": {"uri": _uri(finding.at.file)}, "region": region}
    return {
        "ruleId": finding.rule,
        "ruleIndex": numbers[finding.rule],
        "level": finding.severity,
        "message": {"text": _message(finding)},
        "locations": [{"physicalLocation": location}],
        # Present in every result, because a consumer may take a missing list as unknown.
        "suppressions": list(suppressions),
    }


def _as_suppression(silenced: SilencedFinding) -> dict[str, str]:
    return {"kind": "inSource", "justification": silenced.silence.reason}


def _message(finding: Finding) -> str:
    return f"{finding.says}; {finding.fix}" if finding.fix else finding.says


def _uri(file: str) -> str:
    """A file as a relative URI, or as an absolute one if it is not below the current folder."""
    path = _relative_path(file)
    return Path(path).as_uri() if Path(path).is_absolute() else quote(path)


def _relative_path(file: str) -> str:
    """A file as seen from the current folder, with forward slashes."""
    path, here = Path(file), Path.cwd()
    resolved = path if path.is_absolute() else here / path
    whole = Path(os.path.normpath(resolved))
    return (whole.relative_to(here) if whole.is_relative_to(here) else whole).as_posix()


FORMATS = {"json": to_json, "github": to_github, "sarif": to_sarif}
