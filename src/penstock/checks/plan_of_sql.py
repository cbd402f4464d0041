"""The plan of a SELECT, from sqlglot's tree of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from sqlglot import exp

from penstock.checks.ddl import Type
from penstock.checks.functions import AGGREGATES, FUNCTIONS, GENERATORS, combine
from penstock.checks.join_condition import read_condition
from penstock.checks.names_in_sql import (
    ambiguous_columns,
    find_misplaced,
    find_nested,
    find_start,
    find_ungrouped,
    unknown_columns,
)
from penstock.checks.plan import Column, Equality, Mistake, Operator, Plan, SqlPlace
from penstock.checks.types_in_sql import WINDOW, Typist
from penstock.model import Step
from penstock.sql import parse
from penstock.text import did_you_mean

_WINDOWS = ("window", "session_window")
_RANKS = ("row_number", "rank", "dense_rank")
_CONDITIONS = ("where", "having", "qualify")
_KEPT = frozenset(
    [
        "from_",
        "joins",
        "laterals",
        "where",
        "group",
        "having",
        "qualify",
        "distinct",
        "order",
        "sort",
        "cluster",
        "distribute",
        "limit",
        "offset",
        "with_",
        "expressions",
        "hint",
        "windows",
        "operation_modifiers",
    ]
)
"""The parts of a SELECT that a plan knows."""


@dataclass(frozen=True)
class Relation:
    """A table of a FROM clause, under the name that columns are qualified with; or several that are joined."""

    name: str
    plan: Plan
    joined: tuple[Relation, ...] = ()
    is_qualified: bool = False
    """Whether its columns need its name before them: those that USING has merged."""

    @property
    def parts(self) -> tuple[Relation, ...]:
        """The tables by the names that the user gave."""
        return self.joined or (self,)


@dataclass(frozen=True)
class Scope:
    """What the names in an expression may mean."""

    relations: tuple[Relation, ...]
    extra: tuple[Column, ...] = ()
    """Columns that only some clauses see: windows of GROUP BY, aliases."""

    def column(self, expression: exp.Column) -> Column | None:
        """The column; None if that is unknown or ambiguous."""
        name, *qualifiers = [part.name for part in reversed(expression.parts)]
        if not qualifiers:
            return self._plain(name)
        owner = [each.plan for each in self.relations if each.name.lower() == qualifiers[0].lower()]
        if owner:
            return owner[0].column(name)
        # A field of a struct: Spark does not know a watermark of it.
        return Column(name, has_watermark=False) if self._plain(expression.parts[0].name) else None

    def resolve(self, names: list[str]) -> tuple[Type | None, list[str]]:
        """The type of the column that a dotted name begins with, None if unknown, and the fields after it."""
        owner = self.relation(names[0]) if len(names) > 1 else None
        column = owner.plan.column(names[1]) if owner is not None else None
        if column is not None:
            return column.type, names[2:]
        column = self._plain(names[0]) if owner is None else None
        return column.type if column is not None else None, names[1:]

    @property
    def is_closed(self) -> bool:
        """Whether all columns of all its tables are known."""
        return all(each.plan.columns is not None for each in self.relations)

    @property
    def columns(self) -> list[Column]:
        """Every column that a name without a qualifier may mean."""
        plain = [each.plan for each in self.relations if not each.is_qualified]
        return [*(column for plan in plain for column in plan.columns or ()), *self.extra]

    def relation(self, name: str) -> Relation | None:
        """The table of a name."""
        return next((each for each in self.relations if each.name.lower() == name.lower()), None)

    def owners(self, expression: exp.Column) -> list[str]:
        """The tables that have a column of this name, which is written without one; [] where an alias has it."""
        first = expression.parts[0].name.lower()
        if (len(expression.parts) > 1 and self.relation(first)) or any(
            each.name.lower() == first for each in self.extra
        ):
            return []
        names = [each.name for each in self.relations if not each.is_qualified and each.plan.has(first)]
        return names if all(names) else []

    def has(self, expression: exp.Column) -> bool:
        """Whether a column, or the struct that it is a field of, is there."""
        names = [part.name.lower() for part in expression.parts]
        owner = self.relation(names[0]) if len(names) > 1 else None
        if owner is not None and any(column.name.lower() == names[1] for column in owner.plan.columns or ()):
            return True
        return any(column.name.lower() == names[0] for column in self.columns)

    def _plain(self, name: str) -> Column | None:
        # A column of a table has precedence over an alias.
        found = [column for each in self.relations if not each.is_qualified and (column := each.plan.column(name))]
        extra = [column for column in self.extra if column.name.lower() == name.lower()]
        if len(found) == 1 and all(each.plan.columns is not None for each in self.relations):
            return found[0]
        return extra[0] if extra and not found else None

    def side(self, expression: exp.Column) -> int | None:
        """Which of its relations a column belongs to; None if that is unknown."""
        qualifier = expression.table.lower()
        named = [place for place, each in enumerate(self.relations) if qualifier and each.name.lower() == qualifier]
        if named:
            return named[0]
        if any(each.plan.columns is None for each in self.relations):
            return None
        first = expression.parts[0].name
        found = [place for place, each in enumerate(self.relations) if each.plan.column(first)]
        return found[0] if len(found) == 1 else None


@dataclass(frozen=True)
class SqlPlanner:
    """Makes the plan of one step."""

    step: Step
    text: str
    reads: dict[str, Plan]
    ctes: dict[str, Plan] = field(default_factory=dict)
    outer: tuple[Scope, ...] = ()
    """Of a subquery: what the queries around it read."""
    mistakes: list[Mistake] = field(default_factory=list)
    """What Spark would refuse, in all of the text."""

    def plan(self) -> Plan:
        """The plan of the text; unknown where sqlglot does not parse it."""
        tree = parse(self.text).tree
        try:
            found = self._opaque() if tree is None else self._query(tree)
        except RecursionError:
            # Deeper than any query that a person writes.
            return self._opaque()
        if any(token.text == "|>" for token in parse(self.text).tokens):
            # sqlglot turns what comes before and after into other queries.
            self.mistakes[:] = [each for each in self.mistakes if each.rule == "columns-exist"]
        return found

    def _opaque(self, node: Any = None) -> Plan:
        """What reads everything that the step, or a part of it, reads."""
        names = {table.name.lower() for table in node.find_all(exp.Table)} if node is not None else None
        known = {**{name.lower(): plan for name, plan in self.reads.items()}, **self.ctes}
        read = tuple(plan for name, plan in known.items() if names is None or name in names)
        return self._node("unknown", node, *read, columns=None)

    def _node(self, operator: Operator, node: Any, *children: Plan, **facts: Any) -> Plan:
        streams = any(child.streams for child in children)
        facts = {"columns": children[0].columns if children else None, **facts}
        return Plan(operator, self._place(node), self.step.name, children, streams=streams, **facts)

    def _place(self, node: Any) -> SqlPlace:
        return SqlPlace(self.step, partial(find_start, node, self.text))

    def _query(self, node: Any) -> Plan:
        if with_ := node.args.get("with_"):
            if with_.args.get("recursive"):
                return self._opaque(node)
            planner = self
            for cte in with_.expressions:
                made = planner._rename_columns(planner._query(cte.this), cte.args.get("alias"))
                planner = replace(planner, ctes={**planner.ctes, cte.alias.lower(): made})
            inner = node.copy()
            inner.set("with_", None)
            return self._node("cte", with_, planner._query(inner))
        if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Query):
            return self._add_modifiers(node, self._query(node.this))
        if isinstance(node, exp.Select):
            return self._select(node)
        if isinstance(node, exp.SetOperation):
            return self._set_operation(node)
        return self._values(node) if isinstance(node, exp.Values) else self._opaque(node)

    def _set_operation(self, node: exp.SetOperation) -> Plan:
        left, right = self._query(node.this), self._query(node.expression)
        self._compare_columns(node, left, right)
        if node.args.get("by_name") or node.args.get("on"):
            return self._opaque(node)
        if isinstance(node, exp.Union):
            made = self._node("union", node, left, right)
            made = self._node("distinct", node, made) if node.args.get("distinct") else made
        else:
            made = self._node("except" if isinstance(node, exp.Except) else "intersect", node, left, right)
        return self._add_modifiers(node, made)

    def _values(self, node: exp.Values) -> Plan:
        rows = [each.expressions if isinstance(each, exp.Tuple) else [each] for each in node.expressions]
        if not rows or any(len(row) != len(rows[0]) for row in rows):
            return self._node("scan", node)
        typist = Typist(Scope(()), self.mistakes)
        types = [{typist.type(each) for each in column} for column in zip(*rows, strict=True)]
        names = [f"col{place}" for place in range(1, len(types) + 1)]
        columns = [
            Column(name, type=kinds.pop() if len(kinds) == 1 else None)
            for name, kinds in zip(names, types, strict=True)
        ]
        return self._node("scan", node, columns=tuple(columns))

    def _compare_columns(self, node: exp.SetOperation, left: Plan, right: Plan) -> None:
        """Note columns of a UNION, EXCEPT or INTERSECT that do not go together."""
        if left.columns is None or right.columns is None or node.args.get("by_name"):
            return
        word, start = node.key.upper(), find_start(node, self.text)
        if len(left.columns) != len(right.columns):
            says = f"{word} has {len(left.columns)} columns before it and {len(right.columns)} after it"
            self.mistakes.append(Mistake("types-fit", start, says, "select the same number of columns"))
            return
        for one, other in zip(left.columns, right.columns, strict=True):
            if not combine("union", one.type, other.type)[0]:
                says = f"{word} has {one.name or 'a column'!r} of type {one.type} before it and {other.type} after it"
                self.mistakes.append(Mistake("types-fit", start, says, "cast one of them"))

    def _select(self, node: exp.Select) -> Plan:
        if any(value for name, value in node.args.items() if name not in _KEPT):
            return self._opaque(node)
        relation = self._from(node) if node.args.get("from_") else Relation("", self._node("scan", node, columns=()))
        if relation is None:
            return self._opaque(node)
        below, scope = relation.plan, Scope(relation.parts)
        if where := node.args.get("where"):
            self.mistakes.extend(find_misplaced(where, "WHERE", _is_aggregate))
            below = self._node("filter", where, self._with_subqueries(where, below, scope), calls=_calls(where))
        below, scope = self._group(node, below, scope)
        self._resolve(node, scope)
        windows = [each for part in _own_parts(node) for each in _nodes(part) if isinstance(each, exp.Window)]
        if windows:
            instead = _suggest_step(windows[0], node)
            below = self._node("over", windows[0], below, says=windows[0].this.sql("spark"), instead=instead)
        for part in node.expressions:
            below = self._with_subqueries(part, below, scope)
        columns = self._columns(node, scope)
        calls = frozenset().union(*(_calls(part) for part in _own_parts(node)))
        made = self._node("project", node, below, columns=columns, calls=calls)
        made = self._node("distinct", node, made) if node.args.get("distinct") else made
        return self._add_modifiers(node, made)

    def _resolve(self, node: exp.Select, scope: Scope) -> None:
        """Note the columns that no table has."""
        aliases = tuple(Column(name) for each in node.expressions for name in _output_names(each))
        wide = replace(scope, extra=(*scope.extra, *aliases))
        for name in ("where", "group", "having", "qualify", "order", "sort", "cluster", "distribute"):
            if part := node.args.get(name):
                self.mistakes.extend(unknown_columns(part, scope if name == "where" else wide, self.outer))
                self.mistakes.extend(ambiguous_columns(part, scope) if name == "where" else ())
                hidden = [] if name == "where" else [each.name.lower() for each in aliases]
                typist = Typist(scope, self.mistakes, hidden)
                (typist.condition if name in _CONDITIONS else typist.parts)(part.this if name in _CONDITIONS else part)
        has_generator = any(_name(each) in GENERATORS for part in node.expressions for each in _nodes(part))
        narrow = replace(scope, extra=scope.extra)
        for part in node.expressions:
            self.mistakes.extend(unknown_columns(part, wide if has_generator else narrow, self.outer))
            self.mistakes.extend(ambiguous_columns(part, narrow))
            if isinstance(part, exp.Alias | exp.Aliases) or (isinstance(part, exp.Column) and len(part.parts) > 1):
                # The items after it see its name.
                narrow = replace(narrow, extra=(*narrow.extra, *map(Column, _output_names(part))))

    def _add_modifiers(self, node: Any, below: Plan) -> Plan:
        """ORDER BY, SORT BY, CLUSTER BY, LIMIT and OFFSET."""
        for name in ("order", "sort", "cluster"):
            if part := node.args.get(name):
                below = self._node("sort", part, below, says=f"{name.upper()} BY")
        if part := node.args.get("offset"):
            below = self._node("offset", part, below)
        if part := node.args.get("limit"):
            below = self._node("limit", part, below)
        return below

    def _from(self, node: exp.Select) -> Relation | None:
        """The tables of FROM, joined; None if one of them cannot be understood."""
        found = self._relation(node.args["from_"].this)
        for join in [*(node.args.get("joins") or ()), *(node.args.get("laterals") or ())]:
            if found is None:
                return None
            lateral = join if isinstance(join, exp.Lateral) else join.this
            if isinstance(lateral, exp.Lateral):
                found = None if isinstance(lateral.this, exp.Subquery) else self._generate(found, lateral)
            else:
                right = self._relation(join.this)
                is_known = right is not None and join.args.get("method") != "ASOF"
                found = (
                    self._join(found, join, right, node.args.get("where")) if right is not None and is_known else None
                )
        return found

    def _relation(self, node: Any) -> Relation | None:
        alias = node.args.get("alias")
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier) and len(node.parts) == 1:
            name = node.name.lower()
            by_name = {key.lower(): plan for key, plan in self.reads.items()}
            found = self.ctes.get(name) or by_name.get(name)
            if found is None or node.args.get("joins") or node.args.get("laterals"):
                return None
        elif isinstance(node, exp.Subquery):
            found = self._query(node)
        elif isinstance(node, exp.Values):
            found = self._values(node)
        else:
            return None
        if sample := node.args.get("sample"):
            # TABLESAMPLE (5 ROWS) is a LIMIT.
            found = self._node("limit" if sample.args.get("size") else "sample", node, found)
        for pivot in node.args.get("pivots") or ():
            found = self._pivot(found, pivot)
        return Relation(node.alias_or_name, self._rename_columns(found, alias))

    def _pivot(self, below: Plan, pivot: Any) -> Plan:
        """PIVOT groups twice: by the other columns and the one that is turned, then by the others alone."""
        if pivot.args.get("unpivot"):
            return self._node("generate", pivot, below, columns=None)
        used = {column.name.lower() for column in pivot.find_all(exp.Column)}
        rest = None if below.columns is None else tuple(each for each in below.columns if each.name.lower() not in used)
        first = self._node("aggregate", pivot, below, keys=rest, columns=rest)
        return self._node("aggregate", pivot, first, keys=rest, columns=None)

    def _rename_columns(self, plan: Plan, alias: Any) -> Plan:
        """The plan with the columns named in `AS t(a, b)`."""
        names = [each.name for each in alias.args.get("columns") or ()] if alias is not None else []
        if not names:
            return plan
        if plan.columns is None or len(names) != len(plan.columns):
            unsure = tuple(Column(name, None if plan.streams else False) for name in names)
            return self._node("project", alias, plan, columns=unsure)
        columns = tuple(column.renamed(name) for column, name in zip(plan.columns, names, strict=True))
        return self._node("project", alias, plan, columns=columns)

    def _generate(self, below: Relation, lateral: Any) -> Relation:
        alias = lateral.args.get("alias")
        names = [each.name for each in alias.args.get("columns") or ()] if alias is not None else []
        self.mistakes.extend(unknown_columns(lateral.this, Scope(below.parts), self.outer))
        columns = (*below.plan.columns, *map(Column, names)) if below.plan.columns and names else None
        made = self._node("generate", lateral, below.plan, columns=columns)
        added = Relation(alias.name if alias is not None else "", replace(made, columns=tuple(map(Column, names))))
        return Relation("", made, (*below.parts, added) if columns is not None else ())

    def _join(self, left: Relation, join: exp.Join, right: Relation, where: Any) -> Relation:
        side = _side(join)
        using = [each.name for each in join.args.get("using") or ()]
        is_natural = join.args.get("method") == "NATURAL"
        on = self._condition(join, left, right, using) if not is_natural else None
        if side in ("inner", "cross") and on is not None and where is not None and where.find(exp.EQ, exp.NullSafeEQ):
            # Spark moves an equality of WHERE into the join.
            on = replace(on, has_keys=True)
        plan = self._node(
            "join",
            join,
            left.plan,
            right.plan,
            side=side,
            on=on,
            columns=None if is_natural else _join_columns(left.plan, right.plan, side, using),
            says=f"{left.name or left.plan.step} and {right.name}",
            calls=_calls(join.args.get("on")),
            uses=_times([join.args.get("on")], Scope((*left.parts, right))),
        )
        for name in using:
            missing = [each for each in (left, right) if each.plan.columns is not None and not each.plan.has(name)]
            if missing:
                says = f"USING names {name!r}, which {missing[0].name or 'the left side'!r} does not have"
                fix = did_you_mean(name, [each.name for each in missing[0].plan.columns or ()])
                start = next(each.meta.get("start", 0) for each in join.args["using"] if each.name == name)
                self.mistakes.append(Mistake("columns-exist", start, says, fix))
        if condition := join.args.get("on"):
            scope = Scope((*left.parts, right))
            self.mistakes.extend(unknown_columns(condition, scope, self.outer))
            self.mistakes.extend(ambiguous_columns(condition, scope))
            Typist(scope, self.mistakes).condition(condition)
            plan = self._with_subqueries(condition, plan, scope)
        if side in ("semi", "anti"):
            return Relation(left.name, plan, left.parts)
        parts = (*left.parts, right)
        if using or is_natural:
            return Relation("", plan, (Relation("", plan), *(replace(each, is_qualified=True) for each in parts)))
        return Relation("", plan, parts)

    def _condition(self, join: exp.Join, left: Relation, right: Relation, using: list[str]) -> Equality | None:
        if using:
            columns = [plan.column(name) for name in using for plan in (left.plan, right.plan)]
            if not all(columns):
                return None
            return Equality(True, any(column.has_watermark for column in columns if column))
        scope, lefts = Scope((*left.parts, right)), len(left.parts)
        return read_condition(join.args.get("on"), scope.column, lambda each: _is_right(scope, each, lefts))

    def _group(self, node: exp.Select, below: Plan, scope: Scope) -> tuple[Plan, Scope]:
        group = node.args.get("group")
        parts = [*node.expressions, *([node.args["having"]] if node.args.get("having") else [])]
        aggregates = [each for part in parts for each in _aggregates(part)]
        if not any(isinstance(each, exp.Window) for part in parts for each in _nodes(part)):
            self.mistakes.extend(mistake for part in parts for mistake in find_nested(part, _is_aggregate))
        if group is None and not aggregates:
            strange = [part for part in parts for each in _nodes(part) if _name(each) and _name(each) not in FUNCTIONS]
            # A function that Spark does not have may be an aggregate of the user's.
            below = self._node("unknown", strange[0], below, columns=below.columns) if strange else below
            return below, scope
        keys = self._keys(node, group, scope) if group is not None else ()
        if group is None and scope.is_closed:
            known = {column.name.lower() for column in scope.columns}
            self.mistakes.extend(find_ungrouped(node, [], _may_aggregate, known))
        distinct = [each for each in aggregates if each.find(exp.Distinct)]
        says = {"says": distinct[0].sql("spark"), "says_place": self._place(distinct[0])} if distinct else {}
        uses = _times([group], scope)
        made = self._node("aggregate", group or node, below, keys=keys, columns=None, uses=uses, **says)
        extra = tuple(key for key in keys or () if key.name)
        made = self._node("filter", node.args["having"], made) if node.args.get("having") else made
        return made, replace(scope, extra=extra)

    def _keys(self, node: exp.Select, group: exp.Group, scope: Scope) -> tuple[Column, ...] | None:
        """What is grouped by; None if one of them is unknown."""
        if group.args.get("all"):
            wanted = [_unalias(each) for each in node.expressions if not list(_aggregates(each))]
        else:
            sets = [each for name in ("rollup", "cube", "grouping_sets") for each in group.args.get(name) or ()]
            wanted = [leaf for each in [*group.expressions, *sets] for leaf in _leaves(each)]
        keys = [self._key(each, node, scope) for each in wanted]
        if scope.is_closed and not group.args.get("all"):
            known = {column.name.lower() for column in scope.columns}
            self.mistakes.extend(find_ungrouped(node, keys, _may_aggregate, known))
        found = [self._column(each, scope) for each in keys]
        return None if None in found else tuple(column for column in found if column is not None)

    def _key(self, expression: Any, node: exp.Select, scope: Scope) -> Any:
        """The expression that is grouped by: GROUP BY may name its number or its alias."""
        selected = node.expressions
        if isinstance(expression, exp.Literal) and expression.is_int and 0 < int(expression.name) <= len(selected):
            expression = _unalias(selected[int(expression.name) - 1])
        if isinstance(expression, exp.Column) and len(expression.parts) == 1 and scope.column(expression) is None:
            aliases = {each.alias.lower(): each.this for each in reversed(selected) if isinstance(each, exp.Alias)}
            expression = aliases.get(expression.name.lower(), expression)
        return expression

    def _columns(self, node: exp.Select, scope: Scope) -> tuple[Column, ...] | None:
        """What a SELECT returns."""
        found: list[Column] = []
        is_known, typist = True, Typist(scope, self.mistakes)
        for each in node.expressions:
            if isinstance(each, exp.Star) or (isinstance(each, exp.Column) and isinstance(each.this, exp.Star)):
                added = self._star(each, scope)
                is_known = is_known and added is not None
                found += added or ()
                continue
            inner = _unalias(each)
            kind = typist.type(inner.this if isinstance(each, exp.Aliases) else inner)
            if isinstance(inner, exp.UDTF) or isinstance(each, exp.Aliases) or _name(inner) in GENERATORS:
                is_known = False
                continue
            column = self._column(inner, scope) or Column("", has_watermark=None)
            found.append(replace(column, type=kind, name=each.alias_or_name or column.name))
        return tuple(found) if is_known else None

    def _star(self, star: Any, scope: Scope) -> tuple[Column, ...] | None:
        changed = star.this if isinstance(star, exp.Column) else star
        if any(changed.args.get(name) for name in ("except_", "replace", "rename", "ilike")):
            return None
        wanted = star.table.lower() if isinstance(star, exp.Column) else ""
        seen = [each for each in scope.relations if (each.name.lower() == wanted if wanted else not each.is_qualified)]
        plans = [each.plan for each in seen]
        if not plans or any(plan.columns is None for plan in plans):
            return None
        return tuple(column for plan in plans for column in plan.columns or ())

    def _column(self, expression: Any, scope: Scope) -> Column | None:
        """What Spark knows of the value of an expression; None if that is unknown."""
        expression = expression.unnest()
        if isinstance(expression, exp.Column):
            return scope.column(expression)
        name = _name(expression)
        arguments = expression.expressions if isinstance(expression, exp.Anonymous) else []
        if name in (*_WINDOWS, "window_time") and arguments:
            time = self._column(arguments[0], scope)
            kind = Type("timestamp") if name == "window_time" else WINDOW
            return time and Column(name, time.has_watermark, is_session=name == "session_window", type=kind)
        return Column("")

    def _with_subqueries(self, expression: Any, below: Plan, scope: Scope) -> Plan:
        """The plan, and above it the subqueries of an expression that read a stream."""
        for query in _queries(expression):
            inner = replace(self, outer=(scope, *self.outer))._query(query)
            if inner.streams:
                below = self._node("subquery", query, below, columns=below.columns)
        return below


def _suggest_step(window: exp.Window, node: exp.Select) -> str:
    """The `top` step that does what ROW_NUMBER() OVER (...) is for; empty if that is unclear."""
    order, by = window.args.get("order"), window.args.get("partition_by") or []
    table = node.args["from_"].this if node.args.get("from_") and not node.args.get("joins") else None
    if order is None or not isinstance(table, exp.Table) or _name(window.this) not in _RANKS:
        return ""
    first = order.expressions[0]
    if not all(isinstance(each, exp.Column) for each in (*by, first.this)):
        return ""
    way = " desc" if first.args.get("desc") else ""
    keys = ", ".join(each.name for each in by)
    return f"top: {{from: {table.name}, by: [{keys}], order_by: {first.this.name}{way}, n: 10}}"


def _is_right(scope: Scope, column: exp.Column, lefts: int) -> bool | None:
    side = scope.side(column)
    return None if side is None else side >= lefts


def _side(join: exp.Join) -> str:
    side, kind = (join.side or "").lower(), (join.kind or "").lower()
    if kind in ("semi", "anti"):
        return kind
    if side in ("left", "right", "full"):
        return side
    return "cross" if kind == "cross" or not (join.args.get("on") or join.args.get("using")) else "inner"


def _join_columns(left: Plan, right: Plan, side: str, using: list[str]) -> tuple[Column, ...] | None:
    if left.columns is None or (right.columns is None and side not in ("semi", "anti")):
        return None
    if side in ("semi", "anti"):
        return left.columns
    shared = {name.lower() for name in using}
    owner = right if side == "right" else left
    first = [column for name in using if (column := owner.column(name))]
    if side == "full":
        # The two are merged by `coalesce`.
        first = [Column(column.name) for column in first]
    rest = [column for column in (*left.columns, *(right.columns or ())) if column.name.lower() not in shared]
    return (*first, *rest)


def _output_names(expression: Any) -> list[str]:
    """The names that an expression of a SELECT gives to its columns."""
    if isinstance(expression, exp.Aliases):
        return [each.name for each in expression.aliases]
    # The field of a struct has the field's name.
    return [expression.alias_or_name] if isinstance(expression, exp.Alias | exp.Column | exp.Literal) else []


def _unalias(expression: Any) -> Any:
    return expression.this if isinstance(expression, exp.Alias) else expression


def _name(expression: Any) -> str:
    """The name of a function that sqlglot has no class for."""
    return expression.name.lower() if isinstance(expression, exp.Anonymous) else ""


def _leaves(expression: Any) -> Iterable[Any]:
    if isinstance(expression, exp.Cube | exp.Rollup | exp.GroupingSets | exp.Tuple):
        return [leaf for part in expression.expressions for leaf in _leaves(part)]
    return [expression.unnest()]


def _nodes(expression: Any) -> Iterator[Any]:
    """The nodes of an expression without those of its subqueries."""
    yield from expression.walk(prune=lambda each: isinstance(each, exp.Query) and each is not expression)


def _own_parts(node: exp.Select) -> list[Any]:
    """The expressions that are computed after grouping."""
    return [*node.expressions, *(node.args[name] for name in ("qualify", "order", "sort") if node.args.get(name))]


def _queries(expression: Any) -> list[Any]:
    return [each for each in _nodes(expression) if isinstance(each, exp.Query)]


def _aggregates(expression: Any) -> Iterator[Any]:
    for each in _nodes(expression):
        if _is_aggregate(each) and not _is_over(each):
            yield each


def _is_aggregate(call: Any) -> bool:
    return isinstance(call, exp.AggFunc) or _name(call) in AGGREGATES


def _may_aggregate(call: Any) -> bool:
    """Whether a call is an aggregate, or a function that Spark does not have, or makes rows."""
    name = _name(call)
    return _is_aggregate(call) or (name != "" and (name not in FUNCTIONS or name in GENERATORS))


def _is_over(call: Any) -> bool:
    """Whether a call is the function of an OVER, possibly with FILTER or IGNORE NULLS between."""
    parent = call.parent
    while isinstance(parent, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
        parent = parent.parent
    return isinstance(parent, exp.Window)


def _times(expressions: list[Any], scope: Scope) -> frozenset[int]:
    """The columns with a watermark that expressions read."""
    nodes = [each for part in expressions if part is not None for each in _nodes(part)]
    columns = [scope.column(each) for each in nodes if isinstance(each, exp.Column)]
    return frozenset().union(*(column.times for column in columns if column is not None))


def _calls(expression: Any) -> frozenset[str]:
    """The functions that an expression calls, by any of their names."""
    names: set[str] = set()
    for each in _nodes(expression) if expression is not None else ():
        if isinstance(each, exp.Anonymous):
            names.add(each.name.lower())
        elif isinstance(each, exp.Func):
            names.update(name.lower() for name in each.sql_names())
    return frozenset(names)
