"""The hook for pre-commit: its definition, and what its command does with files."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[3]


def hook() -> dict[str, Any]:
    (found,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    return dict(found)


def run(*files: Path) -> subprocess.CompletedProcess[str]:
    """Run the hook's entry as pre-commit does, with file names after it."""
    program, *arguments = shlex.split(hook()["entry"])
    assert program == "penstock"
    command = [sys.executable, "-m", "penstock", *arguments, *map(str, files)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def test_the_hook_gets_yaml_files():
    assert (hook()["id"], hook()["language"], hook()["types"]) == ("penstock-check", "python", ["yaml"])


def test_the_hook_passes_an_example_with_its_tests_and_other_yaml(tmp_path: Path):
    other = tmp_path / "compose.yaml"
    other.write_text("services: {web: {image: web}}\n")

    done = run(*sorted((ROOT / "examples" / "trades").glob("*.yaml")), other)

    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == ["trades-net", "trades"]


def test_the_hook_fails_for_a_broken_file(tmp_path: Path):
    file = tmp_path / "broken.yaml"
    file.write_text("sources: {ticks: {rate: {}}}\nsinks: {out: {from: tick, memory: {}}}\n")

    done = run(file)

    assert done.returncode == 1
    assert "did you mean 'ticks'? [names-exist]" in done.stderr
