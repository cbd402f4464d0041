"""Names in SQL that mean nothing, or more than one thing: columns of the FROM clause, functions of Spark.

Also columns that a group has many values of, aggregates where Spark has none, and where clauses start: sqlglot keeps
the positions of names and values, not of keywords.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from penstock.checks.functions import FUNCTIONS
from penstock.checks.plan import Mistake
from penstock.sql import parse
from penstock.text import did_you_mean, join_words, nearest

if TYPE_CHECKING:
    from penstock.checks.plan_of_sql import Scope

SYNTAX = frozenset(
    {"try_cast", "timestampadd", "timestampdiff", "extract", "trim", "position", "substring", "overlay", "exists"}
    | {"any", "some", "all", "in", "values", "row", "table", "stream", "identifier", "over", "within", "filter"}
    | {"using", "on", "and", "or", "not", "then", "else", "when", "case", "is", "as", "by", "from", "select", "where"}
    | {"having", "union", "between", "like", "rlike", "ilike"}
)
"""Words before a parenthesis that Spark's parser knows by itself."""


_UNITS = frozenset(
    {"year", "quarter", "month", "week", "day", "dayofweek", "dayofyear", "doy", "dow", "hour", "minute", "second"}
    | {"millisecond", "microsecond", "nanosecond", "years", "months", "weeks", "days", "hours", "minutes", "seconds"}
    | {"milliseconds", "microseconds"}
)
"""Units of time, which some calls have as their first argument."""
#: sqlglot takes these words for columns; Spark has them as functions without parentheses or as units of time.
_WORDS = frozenset(
    {"current_date", "current_path", "current_timestamp", "current_time", "current_user", "user", "session_user"}
    | {"grouping__id", "default", "localtimestamp"}
    | _UNITS
)
_HIDDEN = "_metadata"
_CALL = re.compile(r"[A-Za-z_]\w*(?=\s*\()")


def unknown_columns(expression: Any, scope: Scope, outer: tuple[Scope, ...]) -> Iterator[Mistake]:
    """The columns of an expression that none of its tables has; nothing where columns are unknown."""
    if not all(each.is_closed for each in (scope, *outer)):
        return
    for column in _columns(expression):
        first = column.parts[0].name
        if isinstance(column.this, exp.Star) or first.lower() in _WORDS or first.lower() == _HIDDEN or not first:
            continue
        if _is_variable(column, first) or any(each.has(column) for each in (scope, *outer)):
            continue
        start = column.parts[0].meta.get("start")
        owner = scope.relation(column.parts[0].name) if len(column.parts) > 1 else None
        if owner is not None:
            names = [each.name for each in owner.plan.columns or ()]
            says, wanted = f"{owner.name!r} has no column {column.parts[1].name!r}", column.parts[1].name
            start = column.parts[1].meta.get("start")
        else:
            names = [each.name for each in scope.columns]
            says, wanted = f"there is no column {first!r}", first
        if start is not None:
            yield Mistake("columns-exist", start, says, did_you_mean(wanted, names))


def ambiguous_columns(expression: Any, scope: Scope) -> Iterator[Mistake]:
    """The columns of an expression that several of its tables have; nothing where columns are unknown."""
    for column in _columns(expression) if scope.is_closed else ():
        name, owners = column.parts[0].name, scope.owners(column)
        if len(owners) > 1 and not _is_variable(column, name) and "start" in column.parts[0].meta:
            says = f"{name!r} is ambiguous: {join_words(owners, 'and')} have it"
            yield Mistake("columns-are-unambiguous", column.parts[0].meta["start"], says, f"write {owners[0]}.{name}")


def unknown_functions(tree: Any, text: str) -> Iterator[Mistake]:
    """The functions of a query that Spark does not have."""
    for call in tree.find_all(exp.Func):
        start = call.meta.get("start")
        written = _CALL.match(text, start) if start is not None else None
        if written is None or isinstance(call.parent, exp.Dot) or (start and text[start - 1] in ".`"):
            continue
        name = written[0].lower()
        if name not in FUNCTIONS and name not in SYNTAX:
            near = nearest(name, FUNCTIONS)
            yield Mistake(
                "functions-exist",
                start,
                f"Spark has no function {written[0]!r}",
                f"did you mean {near!r}?" if near else "use one of Spark's functions",
            )


def _columns(expression: Any) -> Iterator[exp.Column]:
    """The columns of an expression, without those of its subqueries and names of arguments."""
    for each in expression.walk(prune=lambda node: isinstance(node, exp.Query)):
        parent = each.parent
        is_name = isinstance(parent, exp.Kwarg) and each.arg_key == "this"
        is_collation = isinstance(parent, exp.Collate) and each.arg_key == "expression"
        if isinstance(each, exp.Column) and not is_name and not is_collation and not isinstance(parent, exp.DataType):
            yield each


def _is_variable(column: Any, name: str) -> bool:
    """Whether a name is the variable of a lambda function around it."""
    parent = column.parent
    while parent is not None:
        if isinstance(parent, exp.Lambda) and any(each.name.lower() == name.lower() for each in parent.expressions):
            return True
        parent = parent.parent
    return False


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
        for column in _find_loose(item, grouped, is_aggregate):
            name = column.parts[-1].name
            if any(part.name.lower() in known for part in column.parts):
                says = f"{name!r} is neither in GROUP BY nor in an aggregate"
                fix = f"group by it, or take any of its values: any_value({column.sql('spark')})"
                yield Mistake("groups-are-complete", column.parts[0].meta.get("start", 0), says, fix)


def find_nested(part: Any, is_aggregate: IsAggregate) -> Iterator[Mistake]:
    """Aggregates of aggregates."""
    for outer in (each for each in _walk(part) if is_aggregate(each)):
        for each in (inner for inner in _walk(outer) if inner is not outer and is_aggregate(inner)):
            says = f"{each.sql('spark')!r} is an aggregate inside of another one"
            fix = "compute it in a subquery or in another step"
            yield Mistake("groups-are-complete", each.meta.get("start", 0), says, fix)


def find_misplaced(part: Any, clause: str, is_aggregate: IsAggregate) -> Iterator[Mistake]:
    """Aggregates in a clause that cannot have any."""
    for each in _walk(part):
        if is_aggregate(each):
            says = f"{each.sql('spark')!r} is an aggregate, which {clause} cannot have"
            fix = "use HAVING, after GROUP BY" if clause == "WHERE" else "aggregate in another step"
            yield Mistake("groups-are-complete", each.meta.get("start", 0), says, fix)


def _find_loose(node: Any, grouped: _Keys, is_aggregate: IsAggregate) -> Iterator[exp.Column]:
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
                yield from _find_loose(each, grouped, is_aggregate)


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
