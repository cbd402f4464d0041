"""The SQL of steps, and where its lines are in the file."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.model import Location, Pipeline, Step
from penstock.sql import parse
from penstock.steps.sql import SqlStep


def sql_text(step: Step) -> str | None:
    """The step's SQL, or None if it has none."""
    text = getattr(step.what, "text", None)
    return text if isinstance(text, str) else None


def sql_steps(pipeline: Pipeline) -> Iterator[tuple[Step, str]]:
    """The steps that are SQL, and their text; what targets select is SQL too."""
    for step in [*pipeline.steps, *_parts(pipeline)]:
        text = sql_text(step)
        if text is not None:
            yield step, text


def _parts(pipeline: Pipeline) -> Iterator[Step]:
    for sink in pipeline.sinks:
        for target in sink.targets:
            text = target.sql(sink.reads)
            if text:
                yield Step(f"{sink.name}.{target.name}", target.at, SqlStep(text=text), (sink.reads,))


def in_text(step: Step, line: int) -> Location:
    """The place of a line of the step's text, counted from 1."""
    begins = step.text_at or step.at
    return Location(begins.file, begins.line + line - 1)


def line_of(text: str, name: str) -> int:
    """The first line of the text that has this name."""
    lines = (token.line for token in parse(text).tokens if token.text.lower() == name.lower())
    return next(lines, 1)


def is_plain(name: str) -> bool:
    """Whether a name is one word, as names of streams are."""
    return name.replace("_", "").isalnum()
