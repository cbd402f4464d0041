"""penstock check"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from penstock.cli import list_findings, say
from penstock.cli._rules import findings_of
from penstock.load.files import pipelines_below
from penstock.model import Finding, Pipeline


@click.command(short_help="Say what is wrong with pipelines, without starting Spark.")
@click.argument("files", nargs=-1, metavar="[FILE_OR_FOLDER]...", type=click.Path(allow_dash=True))
@click.option(
    "--deep",
    is_flag=True,
    help="Also ask Spark: SQL, columns, types, what a stream can do. Starts no query, reaches no broker.",
)
@click.option("--json", "as_json", is_flag=True, help="Findings as JSON on standard output.")
def command(files: Sequence[str], deep: bool, as_json: bool) -> None:
    """Check pipelines in under a second: FILEs, those of FOLDERs and their sub-folders, or standard input (-).

    Example: penstock check trades.yaml
    """
    checked = [_check(file, deep) for each in files or (".",) for file in _expand(each)]
    findings = [finding for _, found in checked for finding in found]
    if as_json:
        click.echo(json.dumps([_as_dict(finding) for finding in findings], indent=2))
    else:
        if findings:
            say(list_findings(findings))
        for pipeline, found in checked:
            if pipeline is not None and not _rules_broken(found):
                click.echo(f"{pipeline.name}: {_counted(pipeline)}: no errors found")
    if wrong := _rules_broken(findings):
        if not as_json:
            say(f"why: penstock explain {wrong[0]}")
        sys.exit(1)


def _check(file: str | Path, deep: bool) -> tuple[Pipeline | None, list[Finding]]:
    pipeline, found = findings_of(file)
    if deep and pipeline is not None and not _rules_broken(found):
        found = sorted([*found, *_deep(pipeline)], key=lambda finding: finding.at)
    return pipeline, found


def _expand(path: str) -> Sequence[str | Path]:
    """The pipelines that an argument means."""
    return (pipelines_below(Path(path)) if Path(path).is_dir() else ()) or [path]


def _rules_broken(findings: Sequence[Finding]) -> list[str]:
    return [finding.rule for finding in findings if finding.severity == "error"]


def _counted(pipeline: Pipeline) -> str:
    counts = ((pipeline.sources, "source"), (pipeline.steps, "step"), (pipeline.sinks, "sink"))
    return ", ".join(f"{len(nodes)} {word}{'' if len(nodes) == 1 else 's'}" for nodes, word in counts)


def _as_dict(finding: Finding) -> dict[str, object]:
    return {
        "file": finding.at.file,
        "line": finding.at.line,
        "rule": finding.rule,
        "severity": finding.severity,
        "says": finding.says,
        "fix": finding.fix,
    }


def _deep(pipeline: Pipeline) -> list[Finding]:
    from penstock.engine.deep_check import check_with_spark

    return check_with_spark(pipeline)
