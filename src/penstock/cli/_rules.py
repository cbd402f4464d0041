"""The rules of `check`: what each one requires, why, and a file that breaks it."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

import yaml

from penstock.checks import RULES, check
from penstock.errors import LoadError
from penstock.load import load, load_text
from penstock.model import Finding, Location, Pipeline


@dataclass(frozen=True)
class Rule:
    """One rule: what it requires and why."""

    name: str
    claim: str
    why: str
    wrong: str = ""
    """A file that breaks the rule; empty if one file cannot show it."""


@cache
def rules() -> dict[str, Rule]:
    """Every rule that a finding can name, in the order of the reference."""
    texts = yaml.safe_load((resources.files("penstock.cli") / "rules.yaml").read_text(encoding="utf-8"))
    claims = {rule.__name__.replace("_", "-"): (rule.__doc__ or "").strip() for rule in RULES}
    return {
        name: Rule(name, each.get("claim") or claims[name], each["why"].strip(), each.get("wrong", ""))
        for name, each in texts.items()
    }


def findings_of(file: str | Path) -> tuple[Pipeline | None, list[Finding]]:
    """The pipeline, if it loads, and all findings about its file and tests.

    The file `-` is standard input.
    """
    try:
        pipeline = load_text(sys.stdin.buffer.read(), "stdin") if file == "-" else load(file)
    except LoadError as error:
        return None, [finding for finding in error.findings if isinstance(finding, Finding)]
    found = check(pipeline)
    if pipeline.tests:
        from penstock.testing.parse import parse_cases

        found = sorted([*found, *parse_cases(pipeline)[1]], key=lambda finding: finding.at)
    return pipeline, found


def example(rule: Rule) -> list[Finding]:
    """The findings in the rule's example, as if it were `wrong.yaml` in this folder."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "wrong.yaml")
        file.write_text(rule.wrong, encoding="utf-8")
        return [
            Finding(each.rule, Location("wrong.yaml", each.at.line), each.says, each.fix, each.severity)
            for each in findings_of(file)[1]
        ]
