"""Detects aggregations in SQL, as far as possible without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.checks.texts import sql_text
from penstock.model import Pipeline, Source, Step
from penstock.sql import parse


def surely_groups(pipeline: Pipeline, step: Step) -> bool:
    """Whether this step has a GROUP BY over a stream; one over a static table is computed once."""
    tree = _tree(step)
    if tree is None:
        return False
    from sqlglot import exp

    grouped = (select for select in tree.find_all(exp.Select) if select.args.get("group"))
    reads = {name.lower() for name in step.reads if name in pipeline.streaming}
    return any(table.name.lower() in reads for select in grouped for table in select.find_all(exp.Table))


def surely_groups_by_time(pipeline: Pipeline, step: Step) -> bool:
    """Whether this step groups by time windows."""
    tree = _tree(step)
    if tree is None or not surely_groups(pipeline, step):
        return False
    from sqlglot import exp

    named = (call.name.lower() for group in tree.find_all(exp.Group) for call in group.find_all(exp.Anonymous))
    return any(name in ("window", "session_window") for name in named)


def surely_does_not_group(step: Step) -> bool:
    """Whether this step cannot contain an aggregation; an unknown function may be one."""
    tree = _tree(step)
    if tree is None:
        return False
    from sqlglot import exp

    return tree.find(exp.Group, exp.AggFunc, exp.Distinct, exp.Anonymous, exp.Pivot, exp.SetOperation) is None


def steps_of(pipeline: Pipeline, name: str) -> list[Step]:
    """The steps upstream of a stream, itself included."""
    return [node for node in _nodes(pipeline, name) if isinstance(node, Step)]


def sources_of(pipeline: Pipeline, name: str) -> list[Source]:
    """The sources upstream of a stream, itself included."""
    return [node for node in _nodes(pipeline, name) if isinstance(node, Source)]


def _nodes(pipeline: Pipeline, name: str) -> Iterator[Source | Step]:
    return (pipeline.streams[each] for each in pipeline.upstream(name))


def _tree(step: Step) -> Any:
    text = sql_text(step)
    return None if text is None else parse(text).tree
