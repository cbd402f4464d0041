"""The command line: one file per command; the only package that prints."""

from __future__ import annotations

import importlib
import os
import select
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TextIO

import click

from penstock.cli._stderr import LineRenderer
from penstock.errors import CheckError, LoadError, PenstockError
from penstock.model import Finding, Pipeline
from penstock.redaction import install_hooks, redact
from penstock.text import Waiting

if TYPE_CHECKING:
    from penstock.checks import SilencedFinding

COMMANDS = sorted(path.stem.replace("_", "-") for path in Path(__file__).parent.glob("[a-z]*.py"))

MOST_FINDINGS = 100
_lines = LineRenderer()


class _Commands(click.Group):
    """Imports a command's module when it is called, so that `check` never imports Spark."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return COMMANDS

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            near = get_close_matches(cmd_name, COMMANDS, n=1)
            ctx.fail(f"unknown command {cmd_name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
        module = importlib.import_module(f"penstock.cli.{cmd_name.replace('-', '_')}")
        command: click.Command = module.command
        return command


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="penstock")
def penstock() -> None:
    """Production streaming pipelines on Apache Spark, from one file."""


def print_status(text: str) -> None:
    """Print to standard error; standard output is for results."""
    line = Waiting(redact(text)) if isinstance(text, Waiting) else redact(text)
    click.echo(_lines.render(line, terminal=sys.stderr.isatty()), err=True, nl=False)


def format_finding(finding: Finding) -> str:
    """A finding as it is printed: the message, and its rule for `penstock explain`."""
    return f"{finding} [{finding.rule}]"


def list_findings(findings: Sequence[object], most: int = MOST_FINDINGS) -> str:
    """A line for each of the first findings; 0 for all of them."""
    shown = findings[:most] if most else findings
    lines = [format_finding(each) if isinstance(each, Finding) else str(each) for each in shown]
    if len(findings) > len(shown):
        lines.append(f"and {len(findings) - len(shown):,} more; penstock check --max 0 shows all of them")
    return "\n".join(lines)


def main() -> None:
    """Run the command line; our errors print without a traceback."""
    install_hooks()
    out = sys.stdout
    try:
        code = _run()
    except BrokenPipeError:
        if not _is_unread(sys.stderr):
            raise
        code = 0
    sys.exit(0 if out is not None and _is_cut_off(out) else code)


def _run() -> str | int | None:
    try:
        penstock(prog_name="penstock")
    except PenstockError as error:
        print_status(_format_error(error))
        return error.exit_code
    except SystemExit as end:
        return end.code
    return 0


def _is_cut_off(out: TextIO) -> bool:
    """Whether the reader of our results, such as `head`, closed the pipe early; that is not a failure."""
    # click replaces standard output when a write to it fails.
    failed = sys.stdout is not out
    try:
        out.flush()
    except BrokenPipeError:
        failed = True
    if not failed or not _is_unread(out):
        return False
    # The interpreter flushes again on exit.
    os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())
    return True


def _is_unread(stream: TextIO) -> bool:
    """Whether a stream is a pipe whose reader is gone."""
    poll = select.poll()
    poll.register(stream.fileno(), 0)
    return bool(poll.poll(0))


def _format_error(error: PenstockError) -> str:
    """The error's message, or a line for each of its findings."""
    return list_findings(error.findings) if isinstance(error, LoadError | CheckError) else str(error)


class CheckedFile(NamedTuple):
    """What `check` knows about a file; no pipeline if it does not load."""

    pipeline: Pipeline | None
    findings: list[Finding]
    silenced: list[SilencedFinding]


def findings_of(file: str | Path) -> CheckedFile:
    """The pipeline, if it loads, and all findings about its file and tests.

    The file `-` is standard input.
    """
    from penstock.checks import check_all, sort_by_cause
    from penstock.load import load, load_text

    try:
        pipeline = load_text(sys.stdin.buffer.read(), "stdin") if file == "-" else load(file)
    except LoadError as error:
        return CheckedFile(None, [finding for finding in error.findings if isinstance(finding, Finding)], [])
    checked = check_all(pipeline)
    found = checked.findings
    if pipeline.tests:
        from penstock.testing.parse import parse_cases

        found = sort_by_cause(pipeline, [*found, *parse_cases(pipeline)[1]])
    return CheckedFile(pipeline, found, checked.silenced)
