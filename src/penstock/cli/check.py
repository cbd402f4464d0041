"""penstock check"""

from __future__ import annotations

import json
import sys

import click

from penstock.cli import said, say
from penstock.cli._rules import findings_of
from penstock.model import Finding, Pipeline


@click.command(short_help="Say what is wrong with a pipeline, without starting Spark.")
@click.argument("file", default=".", type=click.Path())
@click.option("--deep", is_flag=True, help="Also build it with Spark: SQL, columns and types. Starts no query.")
@click.option("--json", "as_json", is_flag=True, help="Findings as JSON on standard output.")
def command(file: str, deep: bool, as_json: bool) -> None:
    """Check a pipeline FILE (or a folder with one) in under a second.

    Example: penstock check trades.yaml
    """
    pipeline, findings = findings_of(file)
    if as_json:
        click.echo(json.dumps([_as_dict(finding) for finding in findings], indent=2))
    else:
        for finding in findings:
            say(said(finding))
    wrong = [finding.rule for finding in findings if finding.severity == "error"]
    if pipeline is None or wrong:
        if wrong and not as_json:
            say(f"why: penstock explain {wrong[0]}")
        sys.exit(1)
    if deep:
        _build(pipeline)
    if not as_json:
        click.echo(f"{pipeline.name}: {_counted(pipeline)}: no errors found")


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


def _build(pipeline: Pipeline) -> None:
    from penstock.engine import build, prepare
    from penstock.engine.opening import open_session

    prepared = prepare(pipeline, say)
    spark = open_session(prepared, verbose=False)
    try:
        build(prepared, spark)
    finally:
        spark.stop()
