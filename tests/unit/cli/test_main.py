"""The program itself: its exit codes, whoever reads it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


def run(*arguments: str, both: bool = False) -> tuple[int, str]:
    """The exit code and standard error of a command whose output nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "penstock", *arguments]
    done = subprocess.run(
        command, stdout=writing, stderr=subprocess.STDOUT if both else subprocess.PIPE, text=True, check=False
    )
    os.close(writing)
    return done.returncode, done.stderr or ""


@pytest.mark.parametrize("arguments", [["list"], ["list", "--json"], ["--help"], ["doctor"]], ids=" ".join)
def test_a_reader_that_leaves_early_is_no_failure(arguments: list[str]):
    assert run(*arguments) == (0, "")


def test_a_reader_of_both_outputs_that_leaves_early_is_no_failure():
    assert run("list", "nonsense", both=True) == (0, "")


def test_a_failure_that_printed_no_result_stays_one(tmp_path: Path):
    code, told = run("check", str(tmp_path / "missing.yaml"))

    assert code == 1
    assert "no such file" in told
