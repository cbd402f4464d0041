"""Findings for programs: JSON, GitHub's workflow commands, SARIF."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from penstock.checks import SilencedFinding
from penstock.cli import penstock
from penstock.cli.check import to_github, to_json, to_sarif
from penstock.cli.explain import rules
from penstock.model import Finding, Location, Silence

WRONG = Finding("names-exist", Location("flows/a.yaml", 7, 3), "sink 'out' reads 'tick'", "did you mean 'ticks'?")
WARNING = Finding("windows-end", Location("flows/a.yaml", 4), "it grows", severity="warning")
SILENCED = SilencedFinding(WARNING, Silence("windows-end", "it is small", Location("flows/a.yaml", 3), 4))


def sarif(findings: list[Finding], silenced: list[SilencedFinding] | None = None) -> dict[str, Any]:
    log: dict[str, Any] = json.loads(to_sarif(findings, silenced or []))
    return log


def test_json_has_the_place_the_rule_and_the_message():
    assert json.loads(to_json([WRONG], [SILENCED])) == [
        {
            "file": "flows/a.yaml",
            "line": 7,
            "column": 3,
            "rule": "names-exist",
            "severity": "error",
            "says": "sink 'out' reads 'tick'",
            "fix": "did you mean 'ticks'?",
        }
    ]


def test_github_gets_one_command_for_each_finding():
    assert to_github([WRONG, WARNING], [SILENCED]).splitlines() == [
        "::error file=flows/a.yaml,line=7,col=3,title=names-exist::sink 'out' reads 'tick'; did you mean 'ticks'?",
        "::warning file=flows/a.yaml,line=4,col=1,title=windows-end::it grows",
    ]


def test_github_gets_no_character_that_would_end_a_property_or_a_command():
    finding = Finding("yaml", Location("a,b:100%.yaml", 1), "50%: one,\r\ntwo::three")

    assert to_github([finding], []) == (
        "::error file=a%2Cb%3A100%25.yaml,line=1,col=1,title=yaml::50%25: one,%0D%0Atwo::three"
    )


def test_sarif_has_every_rule_with_its_explanation():
    driver = sarif([])["runs"][0]["tool"]["driver"]

    assert [rule["id"] for rule in driver["rules"]] == list(rules())
    no_cycle = next(rule for rule in driver["rules"] if rule["id"] == "no-cycle")
    assert no_cycle["shortDescription"] == {"text": rules()["no-cycle"].claim}
    assert no_cycle["fullDescription"] == {"text": rules()["no-cycle"].why}


def test_sarif_has_a_result_for_each_finding():
    log = sarif([WRONG])

    assert log["version"] == "2.1.0"
    assert log["$schema"].endswith("/sarif-schema-2.1.0.json")
    assert log["runs"][0]["results"] == [
        {
            "ruleId": "names-exist",
            "ruleIndex": list(rules()).index("names-exist"),
            "level": "error",
            "message": {"text": "sink 'out' reads 'tick'; did you mean 'ticks'?"},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": "flows/a.yaml"},
                        "region": {"startLine": 7, "startColumn": 3},
                    }
                }
            ],
            "suppressions": [],
        }
    ]


def test_a_silenced_finding_is_a_suppressed_result_with_its_reason():
    (result,) = sarif([], [SILENCED])["runs"][0]["results"]

    assert (result["ruleId"], result["level"]) == ("windows-end", "warning")
    assert result["suppressions"] == [{"kind": "inSource", "justification": "it is small"}]


@pytest.mark.parametrize(
    ("file", "uri"),
    [
        ("a b/ü%.yaml", "a%20b/%C3%BC%25.yaml"),
        ("./a/../b:c.yaml", "b%3Ac.yaml"),
        ("{here}/a.yaml", "a.yaml"),
        ("/elsewhere/a b.yaml", "file:///elsewhere/a%20b.yaml"),
        ("stdin", "stdin"),
    ],
)
def test_files_are_relative_uris_unless_they_are_elsewhere(
    file: str, uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    finding = Finding("file", Location(file.format(here=tmp_path)), "x")

    (result,) = sarif([finding])["runs"][0]["results"]

    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == uri


@pytest.mark.parametrize("form", ["json", "github", "sarif"])
def test_standard_output_has_the_format_and_nothing_else(form: str, tmp_path: Path):
    file = tmp_path / "a.yaml"
    file.write_text("sources: {ticks: {rate: {}}}\nsinks: {out: {from: tick, memory: {}}}\n")

    result = CliRunner().invoke(penstock, ["check", str(file), "--format", form])

    assert (result.exit_code, result.stderr) == (1, "")
    assert result.stdout.startswith({"json": "[\n", "github": "::error file=", "sarif": '{\n  "$schema"'}[form])


@pytest.mark.parametrize(("form", "printed"), [("json", "[]\n"), ("github", "")])
def test_a_file_without_findings_prints_an_empty_list(form: str, printed: str, tmp_path: Path):
    file = tmp_path / "a.yaml"
    file.write_text("sources: {ticks: {rate: {}}}\nsinks: {out: {from: ticks, memory: {}}}\n")

    result = CliRunner().invoke(penstock, ["check", str(file), "--format", form])

    assert (result.exit_code, result.output) == (0, printed)
