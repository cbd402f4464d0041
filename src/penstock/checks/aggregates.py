"""Whether SQL groups rows, as far as that can be told without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.checks.texts import sql_text
from penstock.model import Pipeline, Source, Step
from penstock.sql import parse


def surely_groups(pipeline: Pipeline, step: Step) -> bool:
    """Whether a GROUP BY of this step is over a stream that it reads; one over a static table is done once."""
    tree = _tree(step)
    if tree is None:
        return False
    from sqlglot import exp

    grouped = (select for select in tree.find_all(exp.Select) if select.args.get("group"))
    reads = {name.lower() for name in step.reads if name in pipeline.streaming}
    return any(table.name.lower() in reads for select in grouped for table in select.find_all(exp.Table))


def surely_groups_by_time(pipeline: Pipeline, step: Step) -> bool:
    """Whether a GROUP BY of this step is by windows of time."""
    tree = _tree(step)
    if tree is None or not surely_groups(pipeline, step):
        return False
    from sqlglot import exp

    named = (call.name.lower() for group in tree.find_all(exp.Group) for call in group.find_all(exp.Anonymous))
    return any(name in ("window", "session_window") for name in named)


def surely_does_not_group(step: Step) -> bool:
    """Whether nothing in this step can be an aggregation, an unknown function included."""
    tree = _tree(step)
    if tree is None:
        return False
    from sqlglot import exp

    return tree.find(exp.Group, exp.AggFunc, exp.Distinct, exp.Anonymous, exp.Pivot, exp.SetOperation) is None


def steps_of(pipeline: Pipeline, name: str) -> list[Step]:
    """The steps that a stream is made by."""
    return [node for node in _nodes(pipeline, name) if isinstance(node, Step)]


def sources_of(pipeline: Pipeline, name: str) -> list[Source]:
    """The sources that a stream is made from."""
    return [node for node in _nodes(pipeline, name) if isinstance(node, Source)]


def _nodes(pipeline: Pipeline, name: str) -> Iterator[Source | Step]:
    return (pipeline.streams[each] for each in pipeline.upstream(name))


def _tree(step: Step) -> Any:
    text = sql_text(step)
    return None if text is None else parse(text).tree
