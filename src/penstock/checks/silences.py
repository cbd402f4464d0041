"""Silences: what a comment in the file allows, and what is wrong with such comments.

A silence that cannot be honoured is a warning and has no effect, so a comment alone never stops a pipeline.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from penstock.model import Finding, Pipeline, Silence
from penstock.text import nearest

#: Rules whose errors stay, whatever the reason, and why.
NOT_SILENCED = {
    "names-exist": "there would be no rows to read",
    "no-cycle": "there is no order to build the steps in",
    "sql-is-one-select": "Spark would run the statement while the pipeline is built",
    "sql-reads-streams-only": "steps are built in the order of the streams that they read",
    "sql-stays-as-written": "Spark would run other SQL than the one that was checked",
    "sql-comments-are-plain": "a silence is a comment itself, and Spark must see the same comments",
    "static-sources-are-tables": "its connector has no code for it",
    "decoding-fits-source": "there is nothing to decode",
    "keys-are-there": "the column cannot be added",
    "lookups-are-into-tables": "its connector has no code for it",
    "sinks-read-streams": "the query would never have a batch",
    "mode-fits-sink": "its connector has no code for it",
    "targets-can-share": "its connector has no code for it",
    "trigger-fits-sink": "its connector has no code for it",
    "sinks-write-apart": "the files of both sinks would be damaged, and nothing would report it later",
    "sinks-do-not-feed-sources": "the pipeline would read its own output, and nothing would report it later",
    "storage-is-no-input": "checkpoints would be read as rows, and nothing would report it later",
    "spark-accepts-it": "Spark itself refuses it",
    "columns-fit-sink": "the first batch would fail",
}
DEEP_RULES = frozenset({"columns-are-known"})
"""Rules of `check --deep` that can be silenced."""
_DEPENDS_ON_ENVIRONMENT = frozenset({"outputs-stay-in-their-folders"})
"""Rules that say nothing unless an environment variable is set."""
_MAX_SUGGESTIONS = 100


@dataclass(frozen=True)
class SilencedFinding:
    """A finding that a comment in the file allows."""

    finding: Finding
    silence: Silence


@dataclass(frozen=True)
class Checked:
    """The findings that stay, and those that the file silences."""

    findings: list[Finding]
    silenced: list[SilencedFinding]


def apply_silences(pipeline: Pipeline, findings: Iterable[Finding], rules: Collection[str]) -> Checked:
    """Separate the findings of these rules into those that stay and those that are silenced; report unused silences."""
    valid = [silence for silence in pipeline.silences if silence.rule in rules and silence.reason]
    by_place: dict[tuple[str, str, int], list[Silence]] = {}
    for silence in valid:
        by_place.setdefault((silence.rule, silence.at.file, silence.line), []).append(silence)
    kept, silenced = [], []
    used: set[Silence] = set()
    for finding in findings:
        covering = [each for place in _places(pipeline, finding) for each in by_place.get(place, ())] if valid else []
        if covering:
            silenced.append(SilencedFinding(finding, covering[0]))
            used.update(covering)
        else:
            kept.append(finding)
    kept += (_report_idle(each) for each in valid if each not in used and each.rule not in _DEPENDS_ON_ENVIRONMENT)
    return Checked(kept, silenced)


def _places(pipeline: Pipeline, finding: Finding) -> Iterator[tuple[str, str, int]]:
    """Where a silence of a finding may be: at its line, or at the line of its source, step or sink."""
    if finding.severity == "error" and finding.rule in NOT_SILENCED:
        return
    node = pipeline.node_at(finding.at)
    for line in {finding.at.line, node.at.line if node else finding.at.line}:
        yield finding.rule, finding.at.file, line


def find_malformed(pipeline: Pipeline, rules: Collection[str]) -> Iterator[Finding]:
    """Report silences without a rule of these or without a reason."""
    known = {*rules, *DEEP_RULES, *NOT_SILENCED}
    for number, silence in enumerate(pipeline.silences):
        if silence.rule not in known:
            says = f"{silence.rule!r} is not a rule of check" if silence.rule else "the silence names no rule"
            # A suggestion compares the name with every rule, so their number is limited.
            meant = nearest(silence.rule, known) if silence.rule and number < _MAX_SUGGESTIONS else None
            fix = f"did you mean {meant!r}?" if meant else "write the name that the finding ends with, in brackets"
            yield _warn("silences-name-rules", silence, says, fix)
        elif not silence.reason:
            says = f"the silence of {silence.rule!r} has no reason"
            fix = f"write 'penstock: allow {silence.rule} because ...', with the reason"
            yield _warn("silences-have-reasons", silence, says, fix)
        elif silence.rule in NOT_SILENCED and silence.rule not in rules:
            yield _report_idle(silence)


def _report_idle(silence: Silence) -> Finding:
    if silence.rule in NOT_SILENCED:
        says = f"errors of {silence.rule!r} cannot be silenced: {NOT_SILENCED[silence.rule]}"
        return _warn("silences-name-rules", silence, says, "fix the cause and remove the comment")
    says = f"the silence of {silence.rule!r} silences nothing"
    fix = "remove it, or move it to the line of the finding, the line above, or the line of the source, step or sink"
    return _warn("silences-are-used", silence, says, fix)


def _warn(rule: str, silence: Silence, says: str, fix: str) -> Finding:
    return Finding(rule, silence.at, says, fix, severity="warning")
