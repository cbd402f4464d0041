"""The command line: one file per verb, the only room that prints."""

from __future__ import annotations

import importlib
import os
import select
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TextIO

import click

from penstock.cli._stderr import Lines
from penstock.errors import CheckError, LoadError, PenstockError
from penstock.model import Finding
from penstock.redaction import guard, redact
from penstock.text import Waiting

VERBS = sorted(path.stem.replace("_", "-") for path in Path(__file__).parent.glob("[a-z]*.py"))

_MOST_FINDINGS = 100
_lines = Lines()


class _Verbs(click.Group):
    """Imports a verb's file when that verb is called, so that `check` never pays for Spark."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return VERBS

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            near = get_close_matches(cmd_name, VERBS, n=1)
            ctx.fail(f"there is no command {cmd_name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
        module = importlib.import_module(f"penstock.cli.{cmd_name.replace('-', '_')}")
        command: click.Command = module.command
        return command


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="penstock")
def penstock() -> None:
    """Production streaming pipelines on Apache Spark, from one file."""


def say(text: str) -> None:
    """Talk: standard error, so that results on standard output stay clean."""
    line = Waiting(redact(text)) if isinstance(text, Waiting) else redact(text)
    click.echo(_lines.render(line, terminal=sys.stderr.isatty()), err=True, nl=False)


def said(finding: Finding) -> str:
    """A finding as it is printed: the sentence, and the rule that `penstock explain` tells more of."""
    return f"{finding} [{finding.rule}]"


def list_findings(findings: Sequence[object]) -> str:
    """A line for each finding, the first hundred of them."""
    lines = [said(each) if isinstance(each, Finding) else str(each) for each in findings[:_MOST_FINDINGS]]
    if len(findings) > _MOST_FINDINGS:
        lines.append(f"and {len(findings) - _MOST_FINDINGS:,} more; penstock check --json shows all of them")
    return "\n".join(lines)


def main() -> None:
    """Run the command line; our errors print without a traceback."""
    guard()
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
        say(_told(error))
        return error.exit_code
    except SystemExit as end:
        return end.code
    return 0


def _is_cut_off(out: TextIO) -> bool:
    """Whether the reader of our results left before all of them were written, like `head`: that is no failure."""
    # click has ended the command at a write that failed if it has put another standard output in its place.
    failed = sys.stdout is not out
    try:
        out.flush()
    except BrokenPipeError:
        failed = True
    if not failed or not _is_unread(out):
        return False
    # The interpreter flushes once more at its end.
    os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())
    return True


def _is_unread(stream: TextIO) -> bool:
    """Whether a stream is a pipe that nobody reads any more."""
    poll = select.poll()
    poll.register(stream.fileno(), 0)
    return bool(poll.poll(0))


def _told(error: PenstockError) -> str:
    """The error's sentence; of findings, each of theirs."""
    return list_findings(error.findings) if isinstance(error, LoadError | CheckError) else str(error)
