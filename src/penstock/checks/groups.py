"""Columns that SELECT has beside aggregates without grouping by them, and aggregates where Spark has none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from penstock.checks.plan import Mistake

IsAggregate = Callable[[Any], bool]
_AROUND = (exp.WithinGroup, exp.Filter, exp.IgnoreNulls, exp.RespectNulls)
"""What may stand around the call of an aggregate."""


@dataclass(frozen=True)
class _Keys:
    texts: set[str]
    classes: frozenset[type]

    def has(self, node: Any) -> bool:
        return type(node) in self.classes and _normalize(node) in self.texts


def find_ungrouped(node: exp.Select, keys: list[Any], is_aggregate: IsAggregate, known: set[str]) -> Iterator[Mistake]:
    """The columns of a SELECT with aggregates that are neither grouped by nor aggregated.

    `keys` are the expressions of GROUP BY; `known` are the names of columns, in lower case: other names may be aliases
    or columns of an outer query.
    """
    grouped = _Keys({_normalize(key) for key in keys}, frozenset(type(key.unnest()) for key in keys))
    for item in [*node.expressions, *([node.args["having"]] if node.args.get("having") else [])]:
        for column in _ungrouped(item, grouped, is_aggregate):
            name = column.parts[-1].name
            if any(part.name.lower() in known for part in column.parts):
                says = f"{name!r} is neither in GROUP BY nor in an aggregate"
                fix = f"group by it, or take any of its values: any_value({column.sql('spark')})"
                yield Mistake("groups-are-complete", column.parts[0].meta.get("start", 0), says, fix)


def find_misplaced(part: Any, clause: str, is_aggregate: IsAggregate) -> Iterator[Mistake]:
    """Aggregates in a clause that cannot have any."""
    for each in _walk(part):
        if is_aggregate(each):
            says = f"{each.sql('spark')!r} is an aggregate, which {clause} cannot have"
            fix = "use HAVING, after GROUP BY" if clause == "WHERE" else "aggregate in a step of its own"
            yield Mistake("groups-are-complete", each.meta.get("start", 0), says, fix)


def _ungrouped(node: Any, grouped: _Keys, is_aggregate: IsAggregate) -> Iterator[exp.Column]:
    inner = node
    while isinstance(inner, _AROUND):
        inner = inner.this
    if is_aggregate(inner) or isinstance(node, exp.Query | exp.Lambda | exp.Window) or grouped.has(node):
        return
    if isinstance(node, exp.Column):
        # A field of a struct that is grouped by.
        if not any(_normalize(part) in grouped.texts for part in node.parts) and not isinstance(node.this, exp.Star):
            yield node
        return
    for part in node.args.values():
        for each in part if isinstance(part, list) else [part]:
            if isinstance(each, exp.Expression):
                yield from _ungrouped(each, grouped, is_aggregate)


def _walk(node: Any) -> Iterator[Any]:
    return node.walk(prune=lambda each: isinstance(each, exp.Query))  # type: ignore[no-any-return]


def _normalize(node: Any) -> str:
    """The text of an expression, without the qualifiers of its columns."""
    node = node.unnest()
    if isinstance(node, exp.Alias):
        return _normalize(node.this)
    if isinstance(node, exp.Column | exp.Identifier):
        return str(node.name).lower()
    bare = node.copy().transform(lambda each: exp.column(each.name) if isinstance(each, exp.Column) else each)
    return str(bare.sql("spark", comments=False)).lower().replace("`", "")
