"""What a SELECT from outside may do, decided on the tree that Spark's own parser makes of it.

A text that a browser sends is parsed by Spark and by nothing else: a second lexer would see other comments, other
quotes and so other SQL. Every object of the tree must be on a list here. What is on none of them is refused, so that
a new command, function or relation of a later Spark is refused too until someone has looked at it.

    text -> Spark's parser -> tree -> refusals(tree) -> the same tree is analysed and run
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator
from functools import cache
from importlib import resources
from typing import Any

from penstock.spark.internals import is_java_object
from penstock.text import did_you_mean

_CATALYST = "org.apache.spark.sql.catalyst."
_MOST_OBJECTS = 20_000
#: How many rows or characters all generators of one SELECT may make together from one row.
MOST_GENERATED = 1_000_000
#: How often streams may be read once every WITH is written out.
MOST_READS = 64
_JOIN_HINTS = frozenset(
    {"BROADCAST", "BROADCASTJOIN", "MAPJOIN", "MERGE", "MERGEJOIN", "SHUFFLE_MERGE", "SHUFFLE_HASH"}
)
#: The functions that a SELECT from outside may read as tables.
TABLE_FUNCTIONS = frozenset(
    {"explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "inline_outer", "json_tuple", "stack"}
    | {"variant_explode", "variant_explode_outer"}
)
# Functions that make more than they are given, and which argument says how much.
_SIZED = {
    "repeat": 1,
    "array_repeat": 1,
    "array_insert": 1,
    "lpad": 1,
    "rpad": 1,
    "format_number": 1,
    "space": 0,
    "randstr": 0,
    "stack": 0,
}
_FORMATS = ("format_string", "printf")

_PLANS = (
    "Project Filter Aggregate Join JoinHint LateralJoin Sort Union Distinct Intersect Except SubqueryAlias "
    "OneRowRelation LocalRelation UnresolvedWith GlobalLimit LocalLimit LimitAll Offset WithWindowDefinition "
    "Pivot Unpivot Generate Sample SampleMethod$Bernoulli$ UnresolvedHint UnresolvedEventTimeWatermark"
)
_ANALYSIS = (
    "UnresolvedRelation UnresolvedTableValuedFunction UnresolvedTVFAliases UnresolvedSubqueryColumnAliases "
    "UnresolvedInlineTable UnresolvedHaving UnresolvedQualify UnresolvedAttribute UnresolvedAlias UnresolvedStar "
    "UnresolvedRegex UnresolvedStarExceptOrReplace UnresolvedFunction UnresolvedGenerator UnresolvedOrdinal "
    "UnresolvedPipeAggregateOrdinal UnresolvedExtractValue UnresolvedEventTimeWatermark MultiAlias"
)
_EXPRESSIONS = (
    "Literal Alias Cast And Or Not EqualTo EqualNullSafe LessThan LessThanOrEqual GreaterThan GreaterThanOrEqual In "
    "InSubquery ListQuery ScalarSubquery Exists LateralSubquery FunctionTableSubqueryArgumentExpression Add Subtract "
    "Multiply Divide IntegralDivide Remainder UnaryMinus UnaryPositive BitwiseAnd BitwiseOr BitwiseXor BitwiseNot "
    "ShiftLeft ShiftRight ShiftRightUnsigned Concat Like ILike RLike LikeAll LikeAny NotLikeAll NotLikeAny Lower "
    "IsNull IsNotNull IsUnknown IsNotUnknown CaseWhen Coalesce CreateNamedStruct NamePlaceholder$ SortOrder Ascending$ "
    "Descending$ NullsFirst$ NullsLast$ WindowExpression WindowSpecDefinition WindowSpecReference "
    "UnresolvedWindowExpression SpecifiedWindowFrame UnspecifiedFrame$ RowFrame$ RangeFrame$ CurrentRow$ "
    "UnboundedPreceding$ UnboundedFollowing$ GroupingSets Cube Rollup LambdaFunction UnresolvedNamedLambdaVariable "
    "AttributeReference ExprId NamedArgumentExpression NumericEvalContext Collate UnresolvedCollation "
    "SemiStructuredExtract PipeExpression PipeOperator Substring StringTrim StringTrimLeft StringTrimRight "
    "StringLocate Overlay TimestampAdd TimestampDiff CurrentDate CurrentTimestamp CurrentTime CurrentUser "
    "GenericInternalRow Between AtTimeZone"
)
_JOINS = "Inner$ Cross$ LeftOuter$ RightOuter$ FullOuter$ LeftSemi$ LeftAnti$ NaturalJoin UsingJoin"
_ALLOWED = frozenset(
    [f"{_CATALYST}plans.logical.{name}" for name in _PLANS.split()]
    + [f"{_CATALYST}analysis.{name}" for name in _ANALYSIS.split()]
    + [f"{_CATALYST}expressions.{name}" for name in _EXPRESSIONS.split()]
    + [f"{_CATALYST}expressions.aggregate.{name}" for name in ("AggregateExpression", "Complete$", "AnyValue")]
    + [f"{_CATALYST}expressions.aggregate.{name}" for name in ("First", "Last")]
    + [f"{_CATALYST}plans.{name}" for name in _JOINS.split()]
    + [f"{_CATALYST}{name}" for name in ("AliasIdentifier", "FunctionIdentifier")]
    + ["scala.Some", "scala.None$", "scala.Tuple2", "scala.Tuple3", "scala.Tuple4"]
)
# Values and types: nothing to look into.
_LEAVES = ("org.apache.spark.sql.types.", "org.apache.spark.unsafe.types.", "scala.Enumeration$", "java.util.UUID")
_LEAF_NODES = frozenset(
    {f"{_CATALYST}expressions.GenericInternalRow", "org.apache.spark.sql.util.CaseInsensitiveStringMap"}
)


@cache
def functions() -> frozenset[str]:
    """The functions of Spark that a SELECT from outside may call."""
    text = (resources.files("penstock.preview") / "functions.txt").read_text(encoding="utf-8")
    return frozenset(line for line in text.splitlines() if line and not line.startswith("#"))


def refusals(plan: Any, streams: Collection[str]) -> list[str]:
    """Why this tree may not run over these streams, each reason with what to do; empty if it may."""
    return list(dict.fromkeys(_Policy(streams).judge(plan)))


class _Policy:
    """One look at one tree."""

    def __init__(self, streams: Collection[str]) -> None:
        self._streams = {name.lower() for name in streams}
        self._names = list(streams)
        self._generated = 1
        self._read_by: dict[str, Counter[str]] = {}
        self._with: set[str] = set()

    def judge(self, plan: Any) -> Iterator[str]:
        """Every reason against the tree."""
        nodes = list(_objects(plan))
        if len(nodes) >= _MOST_OBJECTS:
            yield f"it is too large ({_MOST_OBJECTS:,} parts); ask for less"
            return
        self._with = {name.lower() for kind, node in nodes if kind == "UnresolvedWith" for name in _cte_names(node)}
        for kind, node in nodes:
            yield from self._judge_node(kind, node)
        if self._generated > MOST_GENERATED:
            yield f"it makes {self._generated:,} values from one row; use at most {MOST_GENERATED:,}"
        if self._reads(plan) > MOST_READS:
            yield f"with every WITH written out it reads more than {MOST_READS} streams; ask for less"

    def _judge_node(self, kind: str, node: Any) -> Iterator[str]:
        rule = getattr(self, f"_judge_{kind}", None)
        if rule is not None:
            yield from rule(node)
        elif kind.startswith("?"):
            yield f"{_what(kind)} is not for a SELECT from outside; take it out"

    def _judge_UnresolvedRelation(self, node: Any) -> Iterator[str]:  # noqa: N802
        parts = _strings(node.multipartIdentifier())
        name = ".".join(parts)
        if len(parts) > 1 or name.lower() not in self._streams | self._with:
            fix = did_you_mean(name, self._names)
            yield f"it reads {name!r}, which is neither a source nor a step; {fix}"
        if not node.options().isEmpty():
            yield f"it reads {name!r} with options; take them out"

    def _judge_UnresolvedFunction(self, node: Any) -> Iterator[str]:  # noqa: N802
        parts = _strings(node.nameParts())
        yield from self._judge_call(".".join(parts).lower(), functions(), node.arguments())

    def _judge_UnresolvedGenerator(self, node: Any) -> Iterator[str]:  # noqa: N802
        yield from self._judge_call(str(node.name().unquotedString()).lower(), functions(), node.children())

    def _judge_UnresolvedTableValuedFunction(self, node: Any) -> Iterator[str]:  # noqa: N802
        name = ".".join(_strings(node.name())).lower()
        yield from self._judge_call(name, TABLE_FUNCTIONS, node.functionArgs())

    def _judge_call(self, name: str, allowed: Collection[str], arguments: Any) -> Iterator[str]:
        if name not in allowed:
            yield f"it calls {name!r}, which is not for a SELECT from outside; take it out"
        elif name in _FORMATS:
            yield from _judge_format(name, arguments)
        elif name in _SIZED or name == "sequence":
            size = _sequence(arguments) if name == "sequence" else _whole_number(arguments, _SIZED[name])
            if size is None:
                yield f"{name!r} has no size that is written out; give it a whole number"
            else:
                self._generated *= max(1, abs(size))

    def _judge_UnresolvedWith(self, node: Any) -> Iterator[str]:  # noqa: N802
        if node.allowRecursion():
            yield "WITH RECURSIVE can go on for ever; take it out"
        for cte in _items(node.cteRelations()):
            self._read_by.setdefault(str(cte.productElement(0)).lower(), Counter()).update(
                _relations(cte.productElement(1))
            )

    def _judge_UnresolvedHint(self, node: Any) -> Iterator[str]:  # noqa: N802
        if str(node.name()).upper() not in _JOIN_HINTS:
            yield f"the hint {str(node.name())!r} is not for a SELECT from outside; take it out"

    def _judge_Join(self, node: Any) -> Iterator[str]:  # noqa: N802
        kind = str(node.joinType().getClass().getSimpleName())
        if kind in ("Inner$", "Cross$") and node.condition().isEmpty():
            yield from _judge_cross(node.left(), node.right())

    def _judge_LateralJoin(self, node: Any) -> Iterator[str]:  # noqa: N802
        if node.condition().isEmpty():
            yield from _judge_cross(node.left(), node.right().plan())

    def _reads(self, plan: Any) -> int:
        """How many streams are read when every name of a WITH is replaced by its query."""
        sizes: dict[str, int] = {}

        def size(name: str) -> int:
            if name not in self._read_by:
                return 1
            if name not in sizes:
                # A WITH that names itself means the stream of that name.
                sizes[name] = 1
                sizes[name] = min(MOST_READS + 1, sum(size(each) * n for each, n in self._read_by[name].items()))
            return sizes[name]

        outside = _relations(plan) + sum(self._read_by.values(), Counter())
        return sum(size(name) * n for name, n in outside.items())


def _objects(root: Any) -> Iterator[tuple[str, Any]]:
    """Every object of the tree with the last word of its class, after a '?' if that class is on no list."""
    waiting, count = [root], 0
    while waiting and count < _MOST_OBJECTS:
        each = waiting.pop()
        if not is_java_object(each):
            continue
        count += 1
        kind = str(each.getClass().getName())
        if kind in _LEAF_NODES or kind.startswith(_LEAVES):
            continue
        if kind.startswith("scala.collection."):
            waiting += _items(each)
            continue
        yield ("" if kind in _ALLOWED else "?") + kind.rpartition(".")[2], each
        if kind in _ALLOWED:
            waiting += [each.productElement(at) for at in range(each.productArity())]


def _items(found: Any) -> list[Any]:
    items, iterator = [], found.iterator()
    while iterator.hasNext():
        items.append(iterator.next())
    return items


def _strings(found: Any) -> list[str]:
    return [str(each) for each in _items(found)]


def _cte_names(node: Any) -> list[str]:
    return [str(cte.productElement(0)) for cte in _items(node.cteRelations())]


def _relations(plan: Any) -> Counter[str]:
    """How often each relation is named in a plan."""
    names = (node.multipartIdentifier() for kind, node in _objects(plan) if kind == "UnresolvedRelation")
    return Counter(".".join(_strings(name)).lower() for name in names)


def _judge_cross(left: Any, right: Any) -> Iterator[str]:
    sides = (any(kind == "UnresolvedRelation" for kind, _ in _objects(side)) for side in (left, right))
    if all(sides):
        yield "it joins every row of one stream with every row of another; write JOIN ... ON with a condition"


def _whole_number(arguments: Any, at: int) -> int | None:
    """The argument at this place if it is an integer that stands there, None if it is anything else."""
    given = _items(arguments)
    return _integer(given[at]) if at < len(given) else 0


def _integer(expression: Any) -> int | None:
    kind = str(expression.getClass().getSimpleName())
    if kind == "UnaryMinus":
        inner = _integer(expression.child())
        return None if inner is None else -inner
    value = expression.value() if kind == "Literal" else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _sequence(arguments: Any) -> int | None:
    """How many elements `sequence(start, stop, step)` has at most."""
    numbers = [_integer(each) for each in _items(arguments)]
    if None in numbers or not 2 <= len(numbers) <= 3:
        return None
    start, stop = numbers[0] or 0, numbers[1] or 0
    return abs(stop - start) // max(1, abs(numbers[2] or 1) if len(numbers) == 3 else 1) + 1


def _judge_format(name: str, arguments: Any) -> Iterator[str]:
    first = (_items(arguments) or [None])[0]
    is_text = first is not None and str(first.getClass().getSimpleName()) == "Literal"
    if not is_text or re.search(r"\d{5}", str(first.value())):
        yield f"{name!r} needs a format that is written out, with widths below 10,000"


def _what(kind: str) -> str:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind.strip("?$").removeprefix("Unresolved")).lower()
    return {"script transformation": "TRANSFORM ... USING", "plan with unresolved identifier": "IDENTIFIER()"}.get(
        words, f"'{words}'"
    )
