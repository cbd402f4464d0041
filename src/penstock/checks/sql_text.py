"""The SQL of steps and targets, for rules: where it is, where its clauses start, and what it surely does.

sqlglot keeps the positions of names and values, not of keywords.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlglot import exp

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


_KEYWORDS: dict[type[exp.Expression], tuple[str, ...]] = {
    exp.Select: ("SELECT", "FROM"),
    exp.With: ("WITH",),
    exp.Where: ("WHERE",),
    exp.Group: ("GROUP",),
    exp.Having: ("HAVING",),
    exp.Order: ("ORDER",),
    exp.Sort: ("SORT",),
    exp.Cluster: ("CLUSTER",),
    exp.Limit: ("LIMIT",),
    exp.Offset: ("OFFSET",),
    exp.Join: ("JOIN", ","),
    exp.Lateral: ("LATERAL",),
    exp.Pivot: ("PIVOT", "UNPIVOT"),
    exp.Values: ("VALUES",),
    exp.Union: ("UNION",),
    exp.Except: ("EXCEPT", "MINUS"),
    exp.Intersect: ("INTERSECT",),
}
_BEFORE_JOIN = frozenset({"INNER", "CROSS", "LEFT", "RIGHT", "FULL", "OUTER", "SEMI", "ANTI", "NATURAL", "LATERAL"})


def find_start(node: Any, text: str) -> int:
    """Where a part of a query starts: its keyword if it has one, or its first name or value; 0 without a part."""
    node = node.unnest() if isinstance(node, exp.Subquery) else node
    # The operator of a set operation is between its two sides.
    leaf = _first_leaf(node.expression if isinstance(node, exp.SetOperation) else node)
    if leaf is None:
        return 0
    first = int(leaf.meta["start"])
    kind = next((kind for kind in _KEYWORDS if isinstance(node, kind)), None)
    return _find_keyword(_KEYWORDS[kind], first, text, _depth(leaf, node, kind)) if kind is not None else first


def _first_leaf(node: Any) -> Any:
    leaves = (each for each in node.walk() if "start" in each.meta) if node is not None else ()
    return min(leaves, key=lambda each: each.meta["start"], default=None)


def _depth(leaf: Any, node: Any, kind: type[exp.Expression]) -> int:
    """How many keywords of the same kind are between a clause and its first name: SELECT (SELECT a ...)."""
    depth, parent = 0, leaf.parent if leaf is not node else None
    while parent is not None and parent is not node:
        depth += isinstance(parent, kind) and not isinstance(parent, exp.SetOperation)
        parent = parent.parent
    return depth


def _find_keyword(words: tuple[str, ...], before: int, text: str, depth: int) -> int:
    """The nearest of some keywords before an offset, after so many others; a join starts with LEFT, INNER ..."""
    tokens = parse(text).tokens
    places = [place for place, token in enumerate(tokens) if token.start <= before and token.text.upper() in words]
    if len(places) <= depth:
        return before
    place = places[-1 - depth]
    while "JOIN" in words and place and tokens[place - 1].text.upper() in _BEFORE_JOIN:
        place -= 1
    return tokens[place].start
