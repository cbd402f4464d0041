"""Names: inputs exist, steps form no cycle, everything leads to a sink; a cause comes before its effects."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter
from itertools import islice

from penstock.checks.sql_text import find_table, is_plain, sql_steps, sql_text
from penstock.model import Finding, Location, Pipeline, Step, errors
from penstock.sql import parse
from penstock.text import did_you_mean, nearest

_MAX_SUGGESTIONS = 100

Graph = Mapping[str, Sequence[str]]
"""What each step reads."""


def names_exist(pipeline: Pipeline) -> Iterator[Finding]:
    """Every name that a step or a sink reads is a source or a step."""
    for number, (who, name, at) in enumerate(_unknown_reads(pipeline)):
        says = f"{who} reads {name!r}, which is neither a source nor a step"
        # A suggestion compares the name with every other one, so their number is limited.
        fix = did_you_mean(name, pipeline.streams) if number < _MAX_SUGGESTIONS else "name a source or a step"
        yield Finding("names-exist", at, says, fix)


def no_cycle(pipeline: Pipeline) -> Iterator[Finding]:
    """No step reads its own output, directly or through others."""
    reported: set[str] = set()
    reads = steps_between_cycles({step.name: step.reads for step in pipeline.steps})
    for step in pipeline.steps:
        cycle = _find_cycle(reads, step.name) if step.name in reads and step.name not in reported else []
        if cycle:
            reported.update(cycle)
            says = f"step {step.name!r} reads its own rows: {' -> '.join([*cycle, step.name])}"
            yield Finding("no-cycle", step.at, says, "make one of them read something else")


def everything_is_read(pipeline: Pipeline) -> Iterator[Finding]:
    """Every source and step leads to a sink."""
    if any(not parse(text).tokens for _, text in sql_steps(pipeline)):
        # What such a step reads is unknown, and its SQL has an error already: an open quote, or nothing in it.
        return
    used: set[str] = set()
    for name in [*(sink.reads for sink in pipeline.sinks), *_find_meant(pipeline)]:
        if name not in used:
            used.update(pipeline.upstream(name))
    for node in pipeline.streams.values():
        if node.name not in used:
            what = type(node).__name__.lower()
            says = f"no sink uses {what} {node.name!r}"
            yield Finding("everything-is-read", node.at, says, "add a sink for it or remove it", severity="warning")


def _find_meant(pipeline: Pipeline) -> Iterator[str]:
    """The streams that unknown names probably mean: a misspelled reader is one mistake and not two."""
    unknown = dict.fromkeys(name for _, name, _ in _unknown_reads(pipeline))
    for name in islice(unknown, _MAX_SUGGESTIONS):
        meant = nearest(name, pipeline.streams)
        if meant is not None:
            yield meant


def _unknown_reads(pipeline: Pipeline) -> Iterator[tuple[str, str, Location]]:
    for step in pipeline.steps:
        text = sql_text(step)
        # Names with dots or slashes are checked by sql_reads_streams_only.
        names = step.reads if text is None else filter(is_plain, step.reads)
        for name in (name for name in names if name not in pipeline.streams):
            at = _place_of_input(pipeline, step, name) if text is None else step.locate(find_table(text, name))
            yield f"step {step.name!r}", name, at
    for sink in pipeline.sinks:
        if sink.reads not in pipeline.streams:
            yield f"sink {sink.name!r}", sink.reads, pipeline.where(sink, "from")


def _place_of_input(pipeline: Pipeline, step: Step, name: str) -> Location:
    """The option of a step that names an input: `reads`, or another one like the table of a lookup."""
    if ("steps", step.name, "reads") in pipeline.places:
        return pipeline.where(step, "reads", step.reads.index(name))
    what = step.what
    fields = {field.alias or key: getattr(what, key) for key, field in type(what).model_fields.items()}
    option = next((key for key, value in fields.items() if value == name), "reads")
    return pipeline.where(step, what.kind, option)


def steps_between_cycles(reads: Graph) -> Graph:
    """The steps on a cycle or on a path between two; empty for most pipelines."""
    return _reverse(_peel(_reverse(_peel(reads))))


def _peel(graph: Graph) -> Graph:
    """Remove the names that lead to no cycle; linear in the number of edges."""
    back = _reverse(graph)
    left = {name: sum(each in graph for each in set(names)) for name, names in graph.items()}
    free = [name for name, count in left.items() if not count]
    for name in free:
        for other in back[name]:
            left[other] -= 1
            if not left[other]:
                free.append(other)
    return {name: names for name, names in graph.items() if left[name]}


def _reverse(graph: Graph) -> dict[str, list[str]]:
    back: dict[str, list[str]] = {name: [] for name in graph}
    for name, names in graph.items():
        for each in dict.fromkeys(names):
            if each in back:
                back[each].append(name)
    return back


def _find_cycle(reads: Graph, start: str) -> list[str]:
    """The shortest path from a step back to itself."""
    came_from: dict[str, str] = {}
    waiting = [start]
    for name in waiting:
        for each in reads.get(name, ()):
            if each == start:
                return _path(came_from, name)
            if each not in came_from:
                came_from[each] = name
                waiting.append(each)
    return []


def _path(came_from: Mapping[str, str], end: str) -> list[str]:
    path = [end]
    while path[-1] in came_from:
        path.append(came_from[path[-1]])
    return path[::-1]


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
