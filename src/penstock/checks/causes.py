"""The order of findings: a cause before what follows from it."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.model import Finding, Location, Pipeline, Sink, errors


def sort_by_cause(pipeline: Pipeline, findings: Iterable[Finding]) -> list[Finding]:
    """Sort in file order, except that findings of a node come after the errors of the nodes that it reads."""
    listed = list(findings)
    wrong = {node.name for finding in errors(listed) if (node := pipeline.node_at(finding.at)) is not None}
    return sorted(listed, key=lambda finding: _rank(pipeline, finding, wrong))


def _rank(pipeline: Pipeline, finding: Finding, wrong: set[str]) -> tuple[int, Location]:
    node = pipeline.node_at(finding.at) if wrong else None
    if node is None:
        return 0, finding.at
    above = pipeline.upstream(node.reads if isinstance(node, Sink) else node.name)
    return len(wrong.intersection(above) - {node.name}), finding.at
