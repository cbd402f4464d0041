"""Every rule that a finding can name is explained, with a file that really breaks it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock.checks import RULES
from penstock.cli import format_finding
from penstock.cli.check import command as check_command
from penstock.cli.explain import command, example, right_example, rules
from penstock.model import Finding, Location, errors

SOURCE = Path(__file__).parents[3] / "src" / "penstock"
REPORTING = {"Finding", "report", "_report", "_note", "_stop", "_finding"}


def named_in_code() -> set[str]:
    """The first argument, or `rule=`, of every call that makes a finding, and what `_describe` returns first."""
    names = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            texts: list[ast.expr] = []
            if isinstance(node, ast.Call):
                called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                if called in REPORTING and path.parent.name in {"load", "checks", "testing"}:
                    texts = [*node.args[:1], *(each.value for each in node.keywords if each.arg == "rule")]
            elif isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple) and path.name == "validate.py":
                texts = node.value.elts[:1]
            names |= {
                each.value
                for each in texts
                if isinstance(each, ast.Constant) and re.fullmatch(r"[a-z]+(-[a-z]+)*", str(each.value))
            }
    return names


def test_every_rule_in_the_code_is_explained():
    named = named_in_code()

    assert {"names-exist", "unknown-key", "variable", "sql-is-understood", "test-crash", "file"} <= named
    assert named - set(rules()) == set()


def test_every_rule_of_check_is_explained_under_the_name_of_its_function():
    assert {rule.__name__.replace("_", "-") for rule in RULES} <= set(rules())


@pytest.mark.parametrize("name", [rule.name for rule in rules().values() if rule.wrong])
def test_the_example_of_a_rule_breaks_it(name: str):
    found = example(rules()[name])

    assert name in [finding.rule for finding in found]


@pytest.mark.parametrize("name", [rule.name for rule in rules().values() if rule.right])
def test_the_right_file_of_a_rule_keeps_it_and_has_no_error(name: str):
    found = right_example(rules()[name])

    assert errors(found) == []
    assert name not in [finding.rule for finding in found]


def test_a_rule_with_a_wrong_file_has_a_right_one():
    assert [rule.name for rule in rules().values() if bool(rule.wrong) != bool(rule.right)] == []


def test_a_rule_is_explained_with_what_check_says():
    result = CliRunner().invoke(command, ["complete-has-aggregation"])

    assert result.exit_code == 0
    claim = "Mode complete rewrites the whole result, so there is an aggregation."
    assert result.output.splitlines()[0] == f"complete-has-aggregation: {claim}"
    assert result.output.splitlines()[-7:] == [
        "wrong.yaml:4:35: sink 'out' has mode 'complete', and 'ticks' does not aggregate; "
        "use append, or GROUP BY in a step [complete-has-aggregation]",
        "",
        "right.yaml:",
        "    sources:",
        "      ticks: {rate: {}}",
        "    sinks:",
        "      out: {from: ticks, console: {}}",
    ]


def test_the_modules_of_an_example_are_printed_before_it():
    result = CliRunner().invoke(command, ["objects-exist"])

    files = [line for line in result.output.splitlines() if line in ("model.py:", "wrong.yaml:", "right.yaml:")]
    assert files == ["model.py:", "wrong.yaml:", "right.yaml:"]


def test_a_misspelled_rule_gets_the_nearest_one():
    result = CliRunner().invoke(command, ["name-exists"])

    assert str(result.exception) == "unknown rule 'name-exists'; did you mean 'names-exist'?"


def test_a_finding_ends_with_its_rule_and_an_error_says_where_to_read_on(tmp_path: Path):
    file = tmp_path / "ticks.yaml"
    file.write_text("sources: {ticks: {rate: {}}}\nsinks: {out: {from: tick, console: {}}}\n")

    result = CliRunner().invoke(check_command, [str(file)])

    assert result.exit_code == 1
    assert result.stderr.splitlines()[-2:] == [
        f"{file}:2:15: sink 'out' reads 'tick', which is neither a source nor a step; did you mean 'ticks'? "
        "[names-exist]",
        "why: penstock explain names-exist",
    ]


def test_what_is_printed_of_a_finding():
    assert (
        format_finding(Finding("no-cycle", Location("a.yaml", 3), "it", "mend it"))
        == "a.yaml:3:1: it; mend it [no-cycle]"
    )
