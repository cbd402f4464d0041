"""Findings for programs: JSON, the workflow commands of GitHub Actions, and SARIF 2.1.0."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import quote

from penstock.checks import SilencedFinding
from penstock.cli.explain import Rule, rules
from penstock.model import Finding

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_ESCAPES = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY_ESCAPES = {**_ESCAPES, ":": "%3A", ",": "%2C"}


def to_json(findings: Iterable[Finding], silenced: Iterable[SilencedFinding]) -> str:  # noqa: ARG001
    """A list of findings; silenced ones are left out."""
    return json.dumps([_as_dict(finding) for finding in findings], indent=2)


def _as_dict(finding: Finding) -> dict[str, object]:
    return {
        "file": finding.at.file,
        "line": finding.at.line,
        "column": finding.at.column,
        "rule": finding.rule,
        "severity": finding.severity,
        "says": finding.says,
        "fix": finding.fix,
    }


def to_github(findings: Iterable[Finding], silenced: Iterable[SilencedFinding]) -> str:  # noqa: ARG001
    """A workflow command for each finding, which GitHub shows at its line; silenced ones are left out."""
    return "\n".join(_as_command(finding) for finding in findings)


def _as_command(finding: Finding) -> str:
    properties = {
        "file": _relative_path(finding.at.file),
        "line": str(finding.at.line),
        "col": str(finding.at.column),
        "title": finding.rule,
    }
    written = ",".join(f"{name}={_escape(value, _PROPERTY_ESCAPES)}" for name, value in properties.items())
    return f"::{finding.severity} {written}::{_escape(_message(finding), _ESCAPES)}"


def _escape(text: str, escapes: Mapping[str, str]) -> str:
    return "".join(escapes.get(char, char) for char in text)


def to_sarif(findings: Iterable[Finding], silenced: Iterable[SilencedFinding]) -> str:
    """A log with one run: every rule, and a result for each finding; silenced ones are suppressed results."""
    known = rules()
    numbers = {name: number for number, name in enumerate(known)}
    results = [_as_result(finding, numbers) for finding in findings]
    results += (_as_result(each.finding, numbers, [_as_suppression(each)]) for each in silenced)
    driver = {
        "name": "Penstock",
        "semanticVersion": metadata.version("penstock"),
        "rules": [_as_descriptor(rule) for rule in known.values()],
    }
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def _as_descriptor(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.name,
        "shortDescription": {"text": rule.claim},
        "fullDescription": {"text": rule.why},
        "help": {"text": f"{rule.why}\n\npenstock explain {rule.name}"},
    }


def _as_result(
    finding: Finding, numbers: Mapping[str, int], suppressions: Sequence[dict[str, str]] = ()
) -> dict[str, Any]:
    region = {"startLine": finding.at.line, "startColumn": finding.at.column}
    location = {"artifactLocation": {"uri": _uri(finding.at.file)}, "region": region}
    return {
        "ruleId": finding.rule,
        "ruleIndex": numbers[finding.rule],
        "level": finding.severity,
        "message": {"text": _message(finding)},
        "locations": [{"physicalLocation": location}],
        # Present in every result, because a consumer may take a missing list as unknown.
        "suppressions": list(suppressions),
    }


def _as_suppression(silenced: SilencedFinding) -> dict[str, str]:
    return {"kind": "inSource", "justification": silenced.silence.reason}


def _message(finding: Finding) -> str:
    return f"{finding.says}; {finding.fix}" if finding.fix else finding.says


def _uri(file: str) -> str:
    """A file as a relative URI, or as an absolute one if it is not below the current folder."""
    path = _relative_path(file)
    return Path(path).as_uri() if Path(path).is_absolute() else quote(path)


def _relative_path(file: str) -> str:
    """A file as seen from the current folder, with forward slashes."""
    path, here = Path(file), Path.cwd()
    resolved = path if path.is_absolute() else here / path
    whole = Path(os.path.normpath(resolved))
    return (whole.relative_to(here) if whole.is_relative_to(here) else whole).as_posix()


FORMATS = {"json": to_json, "github": to_github, "sarif": to_sarif}
