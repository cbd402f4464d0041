"""Python files that build pipelines."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from penstock.errors import LoadError
from penstock.load import load
from penstock.model import Pipeline

BUILDER = """\
from penstock.load.document import Document, to_pipeline


class Builder:
    def freeze(self):
        nodes = {"sources": {"a": {"rate": None}}, "steps": {"s": step}, "sinks": {"b": {"from": "s", "console": None}}}
        return to_pipeline(Document(nodes, __file__))


def step(a):
    return a


"""


@pytest.fixture(autouse=True)
def _python_path(monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])


def complaint(text: str) -> str:
    Path("flow.py").write_text(text)
    with pytest.raises(LoadError) as error:
        load("flow.py")
    return str(error.value)


def test_the_one_pipeline_of_a_file_is_found(folder):
    Path("flow.py").write_text(f"{BUILDER}import helper\n\npipeline = Builder()\nthe_same = pipeline\n")
    Path("helper.py").write_text("")

    pipeline = load("flow.py")

    assert isinstance(pipeline, Pipeline)
    assert pipeline.steps[0].reads == ("a",)
    assert sys.path[0] == str(folder.resolve())


def test_a_file_can_be_loaded_twice_and_leaves_no_module(folder):
    Path("flow.py").write_text(f"{BUILDER}pipeline = Builder()\n")

    assert load("flow.py").sources == load("flow.py").sources
    assert "penstock_file_flow" not in sys.modules


def test_a_file_that_raises_is_told_by_its_own_line(folder):
    assert complaint("import os\n\nimport nowhere_to_be_found\n") == (
        "flow.py:3:1: the file raises ModuleNotFoundError: No module named 'nowhere_to_be_found'; correct this line"
    )


def test_an_error_deep_inside_a_library_is_told_by_the_line_of_the_file(folder):
    assert complaint("import json\n\njson.loads('{')\n").startswith("flow.py:3:1: the file raises JSONDecodeError: ")


def test_a_file_that_exits_is_told_too(folder):
    assert complaint("raise SystemExit(3)\n") == "flow.py:1:1: the file raises SystemExit: 3; correct this line"


def test_what_is_no_python_is_told_with_its_line(folder):
    assert complaint("a = 1\nb = (\n").startswith("flow.py:2:5: not Python: '(' was never closed; ")


def test_a_file_without_a_pipeline_says_how_to_write_one(folder):
    assert complaint("a = 1\n") == (
        "flow.py:1:1: the file builds no pipeline; write 'pipeline = Pipeline(...)' at the top level"
    )


def test_a_class_that_can_freeze_is_no_pipeline(folder):
    assert "builds no pipeline" in complaint(BUILDER)


def test_a_file_with_two_pipelines_is_refused(folder):
    assert complaint(f"{BUILDER}one = Builder()\ntwo = Builder()\n") == (
        "flow.py:1:1: the file builds 2 pipelines, 'one', 'two'; keep one per file"
    )


def test_what_freezing_finds_is_passed_on(folder):
    text = BUILDER.replace('"rate": None', '"rat": None') + "pipeline = Builder()\n"

    assert complaint(text).endswith("source 'a': unknown key 'rat'; did you mean 'rate'?")


def test_freezing_that_fails_is_told_by_its_line(folder):
    text = "class Builder:\n    def freeze(self):\n        return 1 / 0\n\n\npipeline = Builder()\n"

    assert complaint(text) == "flow.py:3:1: the file raises ZeroDivisionError: division by zero; correct this line"
