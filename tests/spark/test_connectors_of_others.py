"""A connector from another package: installed as pip leaves it, without a network."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "examples" / "connector"


def module(name: str):
    spec = importlib.util.spec_from_file_location(name, PACKAGE / f"{name}.py")
    made = importlib.util.module_from_spec(spec)
    sys.modules[name] = made
    spec.loader.exec_module(made)
    return made


LinesSink = module("penstock_lines").LinesSink
TestLines = module("lines_suite").TestLines


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """An environment in which the package is installed."""
    site = tmp_path / "site"
    info = site / "penstock_lines-1.0.dist-info"
    info.mkdir(parents=True)
    shutil.copy(PACKAGE / "penstock_lines.py", site)
    points = re.search(r'\[project\.entry-points\."(.+)"\]\n(.+)\n', (PACKAGE / "pyproject.toml").read_text())
    assert points
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: penstock-lines\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{points[1]}]\n{points[2].replace(chr(34), '')}\n")
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])}


def penstock(environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "penstock", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def test_it_is_a_word_of_the_file_with_its_options_checked(installed, tmp_path):
    listed = penstock(installed, "list", "lines").stdout
    (tmp_path / "p.yaml").write_text("sources: {a: {rate: }}\nsinks:\n  b: {from: a, lines: {paht: out}}\n")
    checked = penstock(installed, "check", str(tmp_path / "p.yaml"))

    assert "  most_rows            A batch with more rows is refused. (whole number; default 100000)\n" in listed
    assert "  promise: exactly-once: a batch is one file with its number, which appears atomically\n" in listed
    assert "p.yaml:3: sink 'b': unknown key 'paht'; did you mean 'path'?" in checked.stdout + checked.stderr


def test_a_pipeline_runs_with_it(installed, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text('{"n": 1}\n{"n": 2}\n')
    (tmp_path / "p.yaml").write_text(
        "sources: {a: {files: {path: in, format: json, schema: n int}}}\nsinks: {b: {from: a, lines: {path: out}}}\n"
    )
    ran = penstock(installed, "run", str(tmp_path / "p.yaml"), "--once")

    assert ran.returncode == 0, ran.stderr
    (file,) = (tmp_path / "out").iterdir()
    assert [json.loads(line) for line in file.read_text().splitlines()] == [{"n": 1}, {"n": 2}]


def test_the_docs_show_the_example_as_it_is():
    shown = (ROOT / "docs" / "connectors.md").read_text()

    assert (PACKAGE / "penstock_lines.py").read_text() in shown
    assert "\n".join((PACKAGE / "pyproject.toml").read_text().split("\n\n")[2].splitlines()) in shown
