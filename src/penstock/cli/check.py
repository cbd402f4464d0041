"""penstock check"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from penstock.cli import findings_of, list_findings, print_status
from penstock.load.files import walk_pipelines
from penstock.model import Finding, Pipeline, errors


@click.command(short_help="Check pipelines without starting Spark.")
@click.argument("files", nargs=-1, metavar="[FILE_OR_FOLDER]...", type=click.Path(allow_dash=True))
@click.option(
    "--deep",
    is_flag=True,
    help="Also check SQL, columns, types and streaming limits with Spark. Starts no query, contacts no broker.",
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
            print_status(list_findings(findings))
        for pipeline, found in checked:
            if pipeline is not None and not errors(found):
                click.echo(f"{pipeline.name}: {_count_parts(pipeline)}: no errors found")
    if wrong := errors(findings):
        if not as_json:
            print_status(f"why: penstock explain {wrong[0].rule}")
        sys.exit(1)


def _check(file: str | Path, deep: bool) -> tuple[Pipeline | None, list[Finding]]:
    pipeline, found, _ = findings_of(file)
    if deep and pipeline is not None and not errors(found):
        found = sorted([*found, *_deep(pipeline)], key=lambda finding: finding.at)
    return pipeline, found


def _expand(path: str) -> Sequence[str | Path]:
    """The pipelines of an argument: a file, or all below a folder."""
    return (walk_pipelines(Path(path)) if Path(path).is_dir() else ()) or [path]


def _count_parts(pipeline: Pipeline) -> str:
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
