"""The command line: one file per verb, the only room that prints."""

from __future__ import annotations

import importlib
import sys
from difflib import get_close_matches
from pathlib import Path

import click

from penstock.errors import CheckError, LoadError, PenstockError
from penstock.model import Finding
from penstock.redaction import guard, redact

VERBS = sorted(path.stem.replace("_", "-") for path in Path(__file__).parent.glob("[a-z]*.py"))


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
    click.echo(redact(text), err=True)


def said(finding: Finding) -> str:
    """A finding as it is printed: the sentence, and the rule that `penstock explain` tells more of."""
    return f"{finding} [{finding.rule}]"


def main() -> None:
    """Run the command line; our errors print without a traceback."""
    guard()
    try:
        penstock(prog_name="penstock")
    except PenstockError as error:
        say(_told(error))
        sys.exit(error.exit_code)


def _told(error: PenstockError) -> str:
    """The error's sentence; of findings, each of theirs."""
    if not isinstance(error, LoadError | CheckError):
        return str(error)
    return "\n".join(said(each) if isinstance(each, Finding) else str(each) for each in error.findings)
