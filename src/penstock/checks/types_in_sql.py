"""The types of expressions in SQL, and calls, operators and conditions that do not accept them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from penstock.checks.ddl import Column, DdlError, Type, parse_type
from penstock.checks.functions import FUNCTIONS, Function, combine
from penstock.checks.plan import Mistake
from penstock.text import did_you_mean

if TYPE_CHECKING:
    from penstock.checks.plan_of_sql import Scope

_OPERATORS: dict[type, str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.IntDiv: "div",
    exp.EQ: "=",
    exp.NEQ: "=",
    exp.NullSafeEQ: "<=>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.And: "and",
    exp.Or: "or",
    exp.DPipe: "||",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseXor: "^",
    exp.Like: "like",
    exp.RegexpLike: "rlike",
}
_CONDITIONS = (exp.Is, exp.In, exp.Between, exp.Not, exp.Exists, exp.Boolean)
_BOOLEAN, _STRING = Type("boolean"), Type("string")
_TIMES = ("date", "timestamp", "timestamp_ntz")
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")
WINDOW = parse_type("struct<start:timestamp,end:timestamp>")
_WITH_UNIT = ("dateadd", "date_add", "datediff", "date_diff", "timestampadd", "timestampdiff")
"""Calls that may begin with a unit of time."""
_MOST_ASKED = 3
"""Spark was asked about calls of at most so many arguments."""
_SHORT = 40


@dataclass
class Typist:
    """Finds the types of the expressions of one clause."""

    scope: Scope
    mistakes: list[Mistake] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    """Names whose types are unknown: variables of the lambda functions around an expression, aliases."""
    _found: dict[int, Type | None] = field(default_factory=dict)
    """By the id of a node: some are asked about twice, which would take exponential time when they are nested."""

    def condition(self, node: Any) -> None:
        """Check an expression that must be a boolean."""
        found = self.type(node)
        if found is not None and found != _BOOLEAN:
            says = f"{_show(node)} is {found}, and a condition is a boolean"
            self._report(node, says, "compare it with something")

    def type(self, node: Any) -> Type | None:
        """The type of an expression; None if it is unknown."""
        node = node.unnest()
        if id(node) not in self._found:
            self._found[id(node)] = self._find(node)
        return self._found[id(node)]

    def _find(self, node: Any) -> Type | None:
        if isinstance(node, exp.Alias):
            return self.type(node.this)
        if isinstance(node, exp.Query | exp.Star):
            return None
        if isinstance(node, exp.Column):
            return self._column(node)
        if isinstance(node, exp.Anonymous):
            return self._call(node)
        if isinstance(node, exp.Lambda):
            self._lambda(node)
            return None
        if type(node) in _OPERATORS:
            return self._operator(node, _OPERATORS[type(node)])
        if isinstance(node, exp.Cast):
            return self._cast(node)
        return self._other(node)

    def _other(self, node: Any) -> Type | None:
        if isinstance(node, exp.Literal):
            return _literal(node)
        if isinstance(node, exp.Substring | exp.Neg):
            name = "negative" if isinstance(node, exp.Neg) else "substring"
            return self._apply(node, FUNCTIONS[name], [each for each in node.args.values() if each is not None])
        if isinstance(node, exp.Interval):
            return _interval(node)
        if isinstance(node, exp.Case | exp.If):
            return self._branches(node)
        if isinstance(node, exp.Between):
            for part in ("low", "high"):
                self._compare("<=", node, node.this, node.args[part])
            return _BOOLEAN
        if isinstance(node, exp.In):
            for each in node.expressions:
                self._compare("=", node, node.this, each)
            return _BOOLEAN
        if isinstance(node, exp.Filter):
            self.condition(node.expression.this)
            return self.type(node.this)
        if isinstance(node, exp.Window):
            return self._window(node)
        if isinstance(node, exp.Not):
            self.condition(node.this)
        elif isinstance(node, exp.Bracket):
            return self._element(node)
        else:
            self.parts(node)
        return _BOOLEAN if isinstance(node, _CONDITIONS) else None

    def parts(self, node: Any) -> None:
        """Check the parts of an expression or a clause."""
        for each in _operands(node):
            self.type(each)

    def _window(self, node: exp.Window) -> Type | None:
        for name, part in node.args.items():
            if name != "this":
                for each in part if isinstance(part, list) else [part]:
                    if isinstance(each, exp.Expression):
                        self.type(each)
        return self.type(node.this)

    def _column(self, node: exp.Column) -> Type | None:
        names = [part.name for part in node.parts]
        if names[0].lower() in self.unknown or isinstance(node.this, exp.Star):
            return None
        found, rest = self.scope.resolve(names)
        for place, name in enumerate(rest):
            if found is None:
                return None
            found = self._field(node, found, name, names[: len(names) - len(rest) + place])
        return found

    def _field(self, node: exp.Column, of: Type, name: str, path: list[str]) -> Type | None:
        owner = of.part("element") if of.name == "array" else of
        if owner is None or owner.name in ("variant", "map"):
            return owner.part("value") if owner is not None and of.name == "map" else None
        if owner.name != "struct":
            says = f"{'.'.join(path)!r} is {of} and has no field {name!r}"
            self._report(node, says, "only structs have fields")
            return None
        found = owner.part(name)
        if found is None and owner.parts:
            says = f"{'.'.join(path)!r} has no field {name!r}"
            self._report(node, says, did_you_mean(name, [each.name for each in owner.parts]), "columns-exist")
        if found is None or of is owner:
            return found
        return Type("array", parts=(Column("element", found),))

    def _lambda(self, node: exp.Lambda) -> None:
        before = len(self.unknown)
        self.unknown += [each.name.lower() for each in node.expressions]
        self.type(node.this)
        del self.unknown[before:]

    def _call(self, node: exp.Anonymous) -> Type | None:
        arguments = [
            each
            for part in node.expressions
            for each in (part.expressions if isinstance(part, exp.Distinct) else [part])
        ]
        function = FUNCTIONS.get(node.name.lower())
        if function is None or any(isinstance(each, exp.Kwarg | exp.Star | exp.PropertyEQ) for each in arguments):
            self.parts(node)
            return None
        return self._apply(node, function, arguments)

    def _apply(self, node: Any, function: Function, arguments: list[Any]) -> Type | None:
        name, types = function.name, [self.type(each) for each in arguments]
        if name in ("window", "session_window"):
            # Of a window, its time is taken.
            self._check_types(function, arguments[:1], [each if each != WINDOW else None for each in types[:1]])
            return WINDOW
        if name in _WITH_UNIT and len(arguments) == 3:
            return None
        if not function.takes(len(arguments)):
            says = f"{name}() takes {_count(function.counts)}, not {len(arguments)}"
            self._report(node, says, f"correct the arguments of {name}")
            return None
        if len(arguments) <= _MOST_ASKED or function.counts.endswith("+"):
            self._check_types(function, arguments, types)
        return _generic(name, types) or function.result_of(types[0] if types else None)

    def _check_types(self, function: Function, arguments: list[Any], types: list[Type | None]) -> None:
        for place, (argument, type_) in enumerate(zip(arguments, types, strict=True)):
            if isinstance(argument, exp.Literal):
                # A literal that is converted while the query is analysed.
                continue
            if not function.takes_type(place, type_):
                says = f"{function.name}() does not take {type_}, the type of {_show(argument)}"
                self._report(argument, says, f"it takes {function.accepted(place)}")

    def _operator(self, node: Any, operator: str) -> Type | None:
        return self._compare(operator, node, node.left, node.right)

    def _compare(self, operator: str, node: Any, left: Any, right: Any) -> Type | None:
        one, other = self.type(left), self.type(right)
        fits, result = combine(operator, one, other)
        if not fits:
            sign = operator.upper()
            says = f"{_show(left)} is {one} and {_show(right)} is {other}; Spark has no {sign} for them"
            self._report(node, says, _suggest(operator, one, other))
        return result

    def _cast(self, node: exp.Cast) -> Type | None:
        try:
            to = parse_type(node.to.sql("spark"))
        except DdlError:
            to = None
        of = self.type(node.this)
        if to is not None and not combine("cast", of, to)[0]:
            self._report(node, f"{_show(node.this)} is {of} and cannot be cast to {to}", "cast it to another type")
        return to

    def _branches(self, node: Any) -> Type | None:
        pairs = node.args.get("ifs") or [node]
        tested = node.this if isinstance(node, exp.Case) else None
        for each in pairs:
            if tested is None:
                self.condition(each.this)
            else:
                self._compare("=", each, tested, each.this)
        key = "default" if isinstance(node, exp.Case) else "false"
        results = [*(each.args.get("true") for each in pairs), node.args.get(key)]
        types = [self.type(each) for each in results if each is not None and not isinstance(each, exp.Null)]
        return types[0] if types and all(each == types[0] for each in types) else None

    def _element(self, node: exp.Bracket) -> Type | None:
        of = self.type(node.this)
        self.parts(node)
        if of is None or len(node.expressions) != 1:
            return None
        if of.name not in ("array", "map", "struct", "variant"):
            self._report(node, f"{_show(node.this)} is {of} and has no elements", "only arrays and maps have elements")
        return of.part("element") or of.part("value")

    def _report(self, node: Any, says: str, fix: str, rule: str = "types-fit") -> None:
        start = next((each.meta["start"] for each in node.walk(bfs=False) if "start" in each.meta), None)
        found = Mistake(rule, start or 0, says, fix)
        if found not in self.mistakes:
            self.mistakes.append(found)


def _operands(node: Any) -> Iterator[Any]:
    for part in node.args.values():
        for each in part if isinstance(part, list) else [part]:
            if isinstance(each, exp.Expression) and not isinstance(each, exp.Query | exp.DataType | exp.Identifier):
                yield each


def _literal(node: exp.Literal) -> Type:
    if node.is_string:
        return _STRING
    if node.is_int:
        return Type("int" if int(node.name) < 2**31 else "bigint")
    return Type("double" if "e" in node.name.lower() else "decimal")


def _interval(node: exp.Interval) -> Type | None:
    unit = str(node.args.get("unit") or node.this or "").lower()
    has_months, has_days = (
        any(each in unit for each in ("month", "year")),
        any(each in unit for each in ("day", "hour", "minute", "second", "week")),
    )
    if has_months == has_days:
        return None
    return Type("interval", " year to month" if has_months else " day to second")


def _generic(name: str, types: list[Type | None]) -> Type | None:
    """The result of functions whose type is made of their arguments' types."""
    first = types[0] if types else None
    if name in ("coalesce", "nvl", "ifnull", "greatest", "least"):
        return first if all(each == first for each in types) else None
    if name == "if":
        return types[1] if len(types) == 3 and types[1] == types[2] else None
    if name in ("collect_list", "collect_set", "array_agg", "array") and first is not None:
        return Type("array", parts=(Column("element", first),)) if all(each == first for each in types) else None
    if name in ("element_at", "try_element_at", "explode", "explode_outer") and first is not None:
        return first.part("element")
    return None


def _show(node: Any) -> str:
    text = node.sql("spark", comments=False)
    return repr(text if len(text) <= _SHORT else f"{text[:_SHORT]}...")


def _count(counts: str) -> str:
    if counts.endswith("+"):
        return f"at least {counts[:-1]} arguments"
    text = counts.replace("-", " to ").replace("|", " or ")
    return f"{text} argument{'' if text == '1' else 's'}"


def _suggest(operator: str, left: Type | None, right: Type | None) -> str:
    names = [each.name for each in (left, right) if each is not None]
    if operator in "+-" and any(each in _TIMES for each in names) and any(each in _NUMBERS for each in names):
        return "add an interval: at + INTERVAL 5 MINUTES"
    if operator in ("and", "or"):
        return "both sides are conditions"
    return "cast one of them"
