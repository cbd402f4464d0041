from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock.cli import penstock
from penstock.testing import discover

PIPELINE = "sources: {lines: {socket: {port: 1}}}\nsinks: {out: {from: lines, console: {}}}\n"
TESTS = "tests: [{name: n, given: {lines: [[a]]}, expect: {out: []}}]\n"
PYTHON = """\
from penstock import Pipeline, console, socket

pipeline = Pipeline("p")
pipeline.source("lines", socket(port=1))
pipeline.sink("out", "lines", console())
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)


def put(path: str, text: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)


def found(*paths: str) -> dict[str, int]:
    return {str(suite.file): len(suite.cases) for suite in discover(paths)}


def test_a_folder_has_the_tests_of_every_pipeline_below_it():
    put("a/inside.yaml", PIPELINE + TESTS)
    put("b/beside.yaml", PIPELINE)
    put("b/beside_test.yaml", TESTS)
    put("c/both.yml", PIPELINE + TESTS)
    put("c/both_test.yml", TESTS.replace("name: n", "name: m"))
    put("d/python.py", PYTHON)
    put("d/python_test.yaml", TESTS)
    put("e/without.yaml", PIPELINE)
    put("e/compose.yaml", "services: {}\ntests: 5\n")
    put(".venv/hidden.yaml", PIPELINE + TESTS)

    assert found(".") == {"a/inside.yaml": 1, "b/beside.yaml": 1, "c/both.yml": 2, "d/python.py": 1}


def test_a_file_of_tests_means_its_pipeline():
    put("p.yaml", PIPELINE)
    put("p_test.yaml", TESTS)

    assert found("p_test.yaml", "p.yaml") == {"p.yaml": 1}


def test_tests_without_a_pipeline_are_a_finding():
    put("p_test.yaml", TESTS)

    (suite,) = discover(["."])

    says = "these tests are for 'p.yaml', which does not exist; name the file after its pipeline"
    assert [str(finding) for finding in suite.findings] == [f"p_test.yaml:1:1: {says}"]


def test_a_pipeline_with_errors_runs_no_tests():
    put("p.yaml", PIPELINE.replace("from: lines", "from: line") + TESTS)

    (suite,) = discover(["p.yaml"])

    assert suite.cases == ()
    assert "'line'" in str(suite.findings[0])


def test_nothing_to_run_is_a_failure_and_a_wrong_path_a_call_error():
    put("p.yaml", PIPELINE)

    none = CliRunner().invoke(penstock, ["test"])
    wrong = CliRunner().invoke(penstock, ["test", "there.yaml"])

    assert none.exit_code == 1
    assert none.output == "no tests found; write 'tests:' in the pipeline's file, or NAME_test.yaml next to it\n"
    says = "'there.yaml' does not exist; give a pipeline, its tests or a folder"
    assert (str(wrong.exception), wrong.exception.exit_code) == (says, 2)


def test_findings_are_printed_and_are_a_failure():
    put("p.yaml", PIPELINE + TESTS.replace("given", "gven"))

    result = CliRunner().invoke(penstock, ["test"])

    assert result.exit_code == 1
    assert "p.yaml:3:19: test 'n' does not know 'gven'; did you mean 'given'?" in result.output


def test_the_pytest_plugin_imports_no_spark():
    code = "import penstock.testing.plugin, sys; assert 'pyspark' not in sys.modules"

    subprocess.run([sys.executable, "-c", code], check=True)
