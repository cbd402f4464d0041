"""Names: what is read exists, once, and leads somewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from penstock.checks.texts import in_text, is_plain, line_of, sql_text
from penstock.model import Finding, Location, Pipeline
from penstock.text import did_you_mean

_MOST_SUGGESTIONS = 100

Graph = Mapping[str, Sequence[str]]
"""What each step reads."""


def names_exist(pipeline: Pipeline) -> Iterator[Finding]:
    """Every name that a step or a sink reads is a source or a step."""
    unknown = (reading for reading in _readings(pipeline) if reading[1] not in pipeline.streams)
    for number, (who, name, at) in enumerate(unknown):
        says = f"{who} reads {name!r}, which is neither a source nor a step"
        # A suggestion compares the name with every other one: not for thousands of them.
        fix = did_you_mean(name, pipeline.streams) if number < _MOST_SUGGESTIONS else "name a source or a step"
        yield Finding("names-exist", at, says, fix)


def no_cycle(pipeline: Pipeline) -> Iterator[Finding]:
    """No step reads, directly or through others, what it makes itself."""
    reported: set[str] = set()
    reads = steps_between_cycles({step.name: step.reads for step in pipeline.steps})
    for step in pipeline.steps:
        cycle = _cycle(reads, step.name) if step.name in reads and step.name not in reported else []
        if cycle:
            reported.update(cycle)
            says = f"step {step.name!r} reads its own rows: {' -> '.join([*cycle, step.name])}"
            yield Finding("no-cycle", step.at, says, "let one of them read something else")


def everything_is_read(pipeline: Pipeline) -> Iterator[Finding]:
    """Every source and step leads to a sink."""
    used: set[str] = set()
    for sink in pipeline.sinks:
        if sink.reads not in used:
            used.update(pipeline.upstream(sink.reads))
    for node in pipeline.streams.values():
        if node.name not in used:
            what = type(node).__name__.lower()
            says = f"no sink uses {what} {node.name!r}"
            yield Finding("everything-is-read", node.at, says, "add a sink for it or take it out", severity="warning")


def _readings(pipeline: Pipeline) -> Iterator[tuple[str, str, Location]]:
    for step in pipeline.steps:
        text = sql_text(step)
        # Of tables and files in SQL, which have dots and slashes, sql_reads_streams_only speaks.
        names = step.reads if text is None else filter(is_plain, step.reads)
        for name in names:
            at = pipeline.where(step, "reads") if text is None else in_text(step, line_of(text, name))
            yield f"step {step.name!r}", name, at
    for sink in pipeline.sinks:
        yield f"sink {sink.name!r}", sink.reads, pipeline.where(sink, "from")


def steps_between_cycles(reads: Graph) -> Graph:
    """The steps that read a cycle and are read by one, those of cycles included: in most files none."""
    return _reverse(_peel(_reverse(_peel(reads))))


def _peel(graph: Graph) -> Graph:
    """The graph without the names that lead to no cycle; each edge is followed once."""
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


def _cycle(reads: Graph, start: str) -> list[str]:
    """The shortest way from a step back to itself."""
    came_from: dict[str, str] = {}
    waiting = [start]
    for name in waiting:
        for each in reads.get(name, ()):
            if each == start:
                return _way(came_from, name)
            if each not in came_from:
                came_from[each] = name
                waiting.append(each)
    return []


def _way(came_from: Mapping[str, str], end: str) -> list[str]:
    way = [end]
    while way[-1] in came_from:
        way.append(came_from[way[-1]])
    return way[::-1]
