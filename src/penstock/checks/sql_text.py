"""The SQL of steps and targets, for rules: where it is, and what it surely does."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.model import Location, Pipeline, Source, Step
from penstock.sql import parse
from penstock.steps.sql import SqlStep


def sql_text(step: Step) -> str | None:
    """The SQL of a step; None if it has none."""
    text = getattr(step.what, "text", None)
    return text if isinstance(text, str) else None


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
                yield Step(f"{sink.name}.{target.name}", target.at, SqlStep(text=text), (sink.reads,))


def locate_line(step: Step, line: int) -> Location:
    """The location of a line in the step's text, counted from 1."""
    start = step.text_at or step.at
    return Location(start.file, start.line + line - 1)


def find_line(text: str, name: str) -> int:
    """The first line of the text that contains a name."""
    lines = (token.line for token in parse(text).tokens if token.text.lower() == name.lower())
    return next(lines, 1)


def is_plain(name: str) -> bool:
    """Whether a name is a single word, like the names of streams."""
    return name.replace("_", "").isalnum()


def sources_of(pipeline: Pipeline, name: str) -> list[Source]:
    """The sources upstream of a stream, itself included."""
    return [node for node in _nodes(pipeline, name) if isinstance(node, Source)]


def _nodes(pipeline: Pipeline, name: str) -> Iterator[Source | Step]:
    return (pipeline.streams[each] for each in pipeline.upstream(name))
