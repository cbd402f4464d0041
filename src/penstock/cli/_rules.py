"""What each rule of `check` is about: its claim, why it is there, and a file that breaks it."""

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
    """One rule: a claim that findings contradict."""

    name: str
    claim: str
    why: str
    wrong: str = ""
    """A file that breaks the rule; empty where that takes more than one file."""


@cache
def rules() -> dict[str, Rule]:
    """Every rule that a finding can name, in the order of the reference."""
    told = yaml.safe_load((resources.files("penstock.cli") / "rules.yaml").read_text(encoding="utf-8"))
    claims = {rule.__name__.replace("_", "-"): (rule.__doc__ or "").strip() for rule in RULES}
    return {
        name: Rule(name, each.get("claim") or claims[name], each["why"].strip(), each.get("wrong", ""))
        for name, each in told.items()
    }


def findings_of(file: str | Path) -> tuple[Pipeline | None, list[Finding]]:
    """The pipeline, if it can be loaded, and everything that is wrong with its file, its tests included.

    `-` is standard input.
    """
    try:
        pipeline = load_text(sys.stdin.buffer.read(), "stdin") if file == "-" else load(file)
    except LoadError as error:
        return None, [finding for finding in error.findings if isinstance(finding, Finding)]
    found = check(pipeline)
    if pipeline.tests:
        from penstock.testing.parse import trials

        found = sorted([*found, *trials(pipeline)[1]], key=lambda finding: finding.at)
    return pipeline, found


def example(rule: Rule) -> list[Finding]:
    """What `check` finds in the rule's example, as if that were `wrong.yaml` in this folder."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "wrong.yaml")
        file.write_text(rule.wrong, encoding="utf-8")
        return [
            Finding(each.rule, Location("wrong.yaml", each.at.line), each.says, each.fix, each.severity)
            for each in findings_of(file)[1]
        ]
