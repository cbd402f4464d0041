"""The SQL of steps and targets, for rules: where it is, and what it surely does."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.model import Pipeline, Source, Step
from penstock.sql import parse
from penstock.steps.sql import SqlStep


def sql_text(step: Step) -> str | None:
    """The SQL of a step; None if it has none."""
    return step.text or None


def sql_steps(pipeline: Pipeline) -> Iterator[tuple[Step, str]]:
    """The SQL steps with their text, including the selections of targets."""
    for step in [*pipeline.steps, *target_selections(pipeline)]:
        text = sql_text(step)
        if text is not None:
            yield step, text


def target_selections(pipeline: Pipeline) -> Iterator[Step]:
    """What targets select of their rows, as steps."""
    for sink in pipeline.sinks:
        for target in sink.targets:
            text = target.sql(sink.reads)
            if text:
                name, text_at = f"{sink.name}.{target.name}", target.sql_at(sink.reads)
                yield Step(name, target.at, SqlStep(text=text), (sink.reads,), text_at)


def find_table(text: str, name: str) -> int:
    """Where a text reads a table for the first time; where it has the name if that is unknown."""
    parsed, wanted = parse(text), name.lower()
    if parsed.tree is not None:
        from sqlglot import exp

        tables = (table.parts for table in parsed.tree.find_all(exp.Table))
        named = (parts[0] for parts in tables if ".".join(part.name for part in parts).lower() == wanted)
        starts = [part.meta["start"] for part in named if "start" in part.meta]
        if starts:
            return int(min(starts))
    return next((token.start for token in parsed.tokens if token.name.lower() == wanted.partition(".")[0]), 0)


def is_plain(name: str) -> bool:
    """Whether a name is a single word, like the names of streams."""
    return name.replace("_", "").isalnum()


def sources_of(pipeline: Pipeline, name: str) -> list[Source]:
    """The sources upstream of a stream, itself included."""
    return [node for node in _nodes(pipeline, name) if isinstance(node, Source)]


def _nodes(pipeline: Pipeline, name: str) -> Iterator[Source | Step]:
    return (pipeline.streams[each] for each in pipeline.upstream(name))
