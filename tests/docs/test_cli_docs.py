"""Help, completion and the reference: what they say of the command line is all of it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest
from tests.docs.console import ROOT

from penstock.cli import COMMANDS, penstock


def commands() -> Iterator[click.Context]:
    """Every command and every command of a group."""
    top = click.Context(penstock, info_name="penstock")
    for verb in COMMANDS:
        command = penstock.get_command(top, verb)
        assert command is not None
        context = click.Context(command, info_name=verb, parent=top)
        yield context
        for name, inner in getattr(command, "commands", {}).items():
            yield click.Context(inner, info_name=name, parent=context)


@pytest.mark.parametrize("context", list(commands()), ids=lambda context: context.command_path)
def test_the_help_of_a_command_has_an_example_of_it(context: click.Context):
    text = " ".join(context.get_help().split())

    assert f"Example: {context.command_path}" in text


def completed(words: str, at: int, shell: str = "bash") -> list[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / "src"),
        "_PENSTOCK_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(at),
    }
    done = subprocess.run([sys.executable, "-m", "penstock"], env=environment, capture_output=True, text=True)
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "at", "expected"),
    [
        ("penstock hist", 1, ["plain,history"]),
        ("penstock explain no-c", 2, ["plain,no-cycle"]),
        ("penstock list kaf", 2, ["plain,kafka"]),
        ("penstock dev u", 2, ["plain,up"]),
        ("penstock run --drain", 2, ["plain,--drain-seconds"]),
        ("penstock check ex", 2, ["file,ex"]),
    ],
)
def test_the_shell_completes(words: str, at: int, expected: list[str]):
    assert completed(words, at) == expected


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_is_there(shell: str):
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "_PENSTOCK_COMPLETE": f"{shell}_source"}

    done = subprocess.run([sys.executable, "-m", "penstock"], env=environment, capture_output=True, text=True)

    assert "_penstock_completion" in done.stdout
