"""Where the clauses of a SELECT start: sqlglot keeps the positions of names and values, not of keywords."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from penstock.sql import parse

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
