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

from penstock.connectors import Registry
from penstock.testing.connectors import SinkSuite

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
    assert "p.yaml:3:24: sink 'b': unknown key 'paht'; did you mean 'path'?" in checked.stdout + checked.stderr


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


ONE_FILE = '''"""Sink `applog`: appends rows to one file."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from penstock.connector import SinkOptions, Writer


class AppLogSink(SinkOptions):
    """Appends every row as a JSON line to one file."""

    kind: ClassVar[str] = "applog"
    promise: ClassVar[str] = "at-least-once: a batch that is replayed is appended again"
    paths: ClassVar[tuple[str, ...]] = ("path",)

    path: str = Field(description="The file to append to.")

    def open(self, spark, schema, mode):
        return AppLogWriter(Path(self.path))


@dataclass
class AppLogWriter(Writer):
    file: Path

    def write(self, rows, batch):
        lines = rows.selectExpr("to_json(struct(*)) AS line").collect()
        with self.file.open("a", encoding="utf-8") as file:
            file.writelines(f"{row.line}\\n" for row in lines)
'''


def install(site: Path) -> Path:
    """A folder of packages with the one file, and the entry point that names its sink."""
    info = site / "penstock_applog-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "penstock_applog.py").write_text(ONE_FILE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: penstock-applog\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[penstock.sinks]\napplog = penstock_applog:AppLogSink\n")
    return site


@pytest.fixture
def one_file(tmp_path: Path) -> dict[str, str]:
    """An environment in which the one file is installed."""
    site = install(tmp_path / "site")
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])}


def test_one_file_is_enough_for_the_file_the_list_and_python(one_file, tmp_path):
    (tmp_path / "p.yaml").write_text("sources: {a: {rate: }}\nsinks:\n  b: {from: a, applog: {path: out.log}}\n")
    program = """
import penstock
pipeline = penstock.Pipeline("p")
pipeline.source("a", penstock.rate())
pipeline.sink("b", "a", penstock.applog(path="out.log"))
print(repr(pipeline.freeze().sinks[0].targets[0].connector))
print(penstock.applog.__doc__)
"""

    checked = penstock(one_file, "check", str(tmp_path / "p.yaml"))
    kinds = penstock(one_file, "list")
    options = penstock(one_file, "list", "applog")
    python = subprocess.run(
        [sys.executable, "-c", program], env=one_file, cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert checked.returncode == 0, checked.stderr
    assert re.search(r"^ *applog\b", kinds.stdout, re.MULTILINE), kinds.stdout
    assert "promise: at-least-once: a batch that is replayed is appended again" in options.stdout
    assert python.returncode == 0, python.stderr
    assert python.stdout.splitlines()[0].startswith("AppLogSink(")
    assert "penstock list applog" in python.stdout


def test_a_kind_that_no_package_has_is_no_attribute():
    program = "import penstock; penstock.applog"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert "AttributeError: module 'penstock' has no attribute 'applog'" in ran.stderr


class TestOneFile(SinkSuite):
    has_columns = False

    @pytest.fixture(autouse=True)
    def _installed(self, tmp_path_factory, monkeypatch):
        monkeypatch.syspath_prepend(install(tmp_path_factory.mktemp("packages") / "site"))
        self.sink_class = Registry("penstock.sinks", {})["applog"]

    def sink(self, place):
        return self.sink_class(path=str(place / "out.log"))

    def written(self, sink):
        lines = [json.loads(line) for line in Path(sink.path).read_text().splitlines()]
        return [(line["id"], line.get("name"), line.get("amount")) for line in lines]
