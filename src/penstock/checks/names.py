"""Names: what is read exists, once, and leads somewhere."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.checks.texts import in_text, is_plain, line_of, sql_text
from penstock.model import Finding, Location, Pipeline
from penstock.words import did_you_mean


def names_exist(pipeline: Pipeline) -> Iterator[Finding]:
    """Every name that a step or a sink reads is a source or a step."""
    for who, name, at in _readings(pipeline):
        if name not in pipeline.streams:
            says = f"{who} reads {name!r}, which is no source and no step"
            yield Finding("names-exist", at, says, did_you_mean(name, pipeline.streams))


def no_cycle(pipeline: Pipeline) -> Iterator[Finding]:
    """No step reads, directly or through others, what it makes itself."""
    told: set[str] = set()
    for step in pipeline.steps:
        cycle = _cycle(pipeline, step.name) if step.name not in told else []
        if cycle:
            told.update(cycle)
            says = f"step {step.name!r} reads its own rows: {' -> '.join([*cycle, step.name])}"
            yield Finding("no-cycle", step.at, says, "let one of them read something else")


def everything_is_read(pipeline: Pipeline) -> Iterator[Finding]:
    """Every source and step leads to a sink."""
    used = {name for sink in pipeline.sinks for name in pipeline.upstream(sink.reads)}
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


def _cycle(pipeline: Pipeline, start: str) -> list[str]:
    """The shortest way from a step back to itself."""
    reads = {step.name: step.reads for step in pipeline.steps}
    ways, seen = [[start]], set()
    for way in ways:
        for name in reads.get(way[-1], ()):
            if name == start:
                return way
            if name not in seen:
                seen.add(name)
                ways.append([*way, name])
    return []
