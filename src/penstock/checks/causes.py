"""The order of findings: a cause before what follows from it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter

from penstock.model import Finding, Location, Pipeline, errors


def sort_by_cause(pipeline: Pipeline, findings: Iterable[Finding]) -> list[Finding]:
    """Sort in file order, except that findings of a node come after the errors of the nodes that it reads."""
    listed = list(findings)
    wrong = {node.name for finding in errors(listed) if (node := pipeline.node_at(finding.at)) is not None}
    ranks = _rank_nodes(pipeline, wrong) if wrong else {}

    def rank(finding: Finding) -> tuple[int, Location]:
        node = pipeline.node_at(finding.at) if ranks else None
        return ranks.get(node.name, 0) if node else 0, finding.at

    return sorted(listed, key=rank)


def _rank_nodes(pipeline: Pipeline, wrong: Collection[str]) -> dict[str, int]:
    """The largest number of nodes with errors on a way from a source to each node; 0 in and after a cycle."""
    reads: dict[str, tuple[str, ...]] = {source.name: () for source in pipeline.sources}
    reads |= {step.name: step.reads for step in pipeline.steps}
    reads |= {sink.name: (sink.reads,) for sink in pipeline.sinks}
    ranks: dict[str, int] = {}
    for name in _in_order(reads):
        ranks[name] = max((ranks[each] + (each in wrong) for each in reads.get(name, ())), default=0)
    return ranks


def _in_order(reads: dict[str, tuple[str, ...]]) -> Iterator[str]:
    sorter = TopologicalSorter(reads)
    # Names that are not in a cycle are given nevertheless; the rule no-cycle reports the others.
    with suppress(CycleError):
        sorter.prepare()
    while ready := sorter.get_ready():
        yield from ready
        sorter.done(*ready)
