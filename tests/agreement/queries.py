"""SELECTs by chance, over rows whose columns are known: what people write, and what Spark refuses."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

TYPES = {
    "kind": "string",
    "amount": "int",
    "score": "double",
    "tags": "array<string>",
    "detail": "struct<code:int,name:string>",
}
NUMBERS = ("int", "bigint", "double")
KEYS = ("bigint", "string", "int")
_WINDOW = "window"
_TUMBLING = ("'5 minutes'", "'1 hour'")
_SLIDING = ("'10 minutes', '5 minutes'", "'1 hour', '15 minutes'")


@dataclass(frozen=True)
class Rows:
    """What a source or a step gives: its columns, and which of them is the event time."""

    name: str
    columns: Mapping[str, str]
    time: str = ""
    has_watermark: bool = False
    is_static: bool = False
    is_grouped: bool = False

    def of(self, *types: str) -> list[str]:
        """The columns of some types."""
        return [name for name, kind in self.columns.items() if kind in types]


@dataclass(frozen=True)
class Query:
    """A SELECT and the rows that it gives."""

    label: str
    sql: str
    rows: Rows


class _UnsuitableError(Exception):
    """The rows lack what a shape needs."""


@dataclass
class Scope:
    """What a step can read, and the choice of columns in it."""

    chance: random.Random
    rows: Rows
    other: Rows
    table: Rows | None
    number: int

    def choose(self, items: Sequence[str]) -> str:
        if not items:
            raise _UnsuitableError
        return self.chance.choice(items)

    def column(self, rows: Rows, *types: str) -> str:
        return self.choose(rows.of(*types))

    def key(self, rows: Rows) -> str:
        return self.column(rows, *KEYS)

    def time(self, rows: Rows) -> str:
        return rows.time or self.column(rows, "timestamp")

    def partner(self) -> Rows:
        """The other side of a join or a set operation: a stream, or the static table."""
        if self.table is not None and self.happens(0.45):
            return self.table
        if self.other.name == self.rows.name and self.happens(0.7):
            raise _UnsuitableError
        return self.other

    def need_table(self) -> Rows:
        if self.table is None:
            raise _UnsuitableError
        return self.table

    def happens(self, share: float) -> bool:
        return self.chance.random() < share

    def fill(self, template: str) -> str:
        """Replace {key}, {number}, {text}, {time}, {array}, {struct}, {table...} and {other...} in a template."""
        return re.sub(r"\{(\w+)\}", lambda found: self._value(found.group(1)), template)

    def _value(self, name: str) -> str:
        rows = self.rows
        match name:
            case "rows":
                return rows.name
            case "other":
                return self.other.name
            case "other_key":
                return self.key(self.other)
            case "other_number":
                return self.column(self.other, *NUMBERS)
            case "table":
                return self.need_table().name
            case "key":
                return self.key(rows)
            case "number":
                return self.column(rows, *NUMBERS)
            case "text":
                return self.column(rows, "string")
            case "time":
                return self.time(rows)
            case "array":
                return self.column(rows, TYPES["tags"])
            case "struct":
                return self.column(rows, TYPES["detail"])
            case "window":
                return self.column(rows, _WINDOW)
        raise AssertionError(name)


Shape = Callable[[Scope], Query]


# Projections and filters


def _star(scope: Scope) -> Query:
    return Query("star", f"SELECT * FROM {scope.rows.name}", scope.rows)


def _some_columns(scope: Scope) -> Query:
    names = [name for name in scope.rows.columns if name == scope.rows.time or scope.happens(0.7)]
    if not names:
        raise _UnsuitableError
    return Query("columns", f"SELECT {', '.join(names)} FROM {scope.rows.name}", _keep(scope.rows, names))


def _qualified(scope: Scope) -> Query:
    names = list(scope.rows.columns)
    how = {
        "alias-star": f"SELECT t.* FROM {scope.rows.name} AS t",
        "qualified": f"SELECT {', '.join(f't.{name}' for name in names)} FROM {scope.rows.name} AS t",
        "quoted-names": f"SELECT {', '.join(f'`{name}`' for name in names)} FROM `{scope.rows.name}`",
    }
    label = scope.choose(list(how))
    return Query(label, how[label], scope.rows)


def _renamed_time(scope: Scope) -> Query:
    time, key = scope.time(scope.rows), scope.key(scope.rows)
    if key == time or "moment" in scope.rows.columns:
        raise _UnsuitableError
    others = [name for name in scope.rows.columns if name not in (time, key) and scope.happens(0.6)]
    columns = {name: scope.rows.columns[name] for name in (key, *others)}
    sql = f"SELECT {', '.join(columns)}, {time} AS moment FROM {scope.rows.name}"
    rows = replace(scope.rows, columns={**columns, "moment": "timestamp"}, time="moment")
    return Query("renamed-time", sql, rows)


def _changed_time(scope: Scope) -> Query:
    time, key = scope.time(scope.rows), scope.key(scope.rows)
    how = {
        "shifted": f"{time} + INTERVAL 1 HOUR",
        "truncated": f"date_trunc('HOUR', {time})",
        "recast": f"CAST(CAST({time} AS string) AS timestamp)",
    }
    label = scope.choose(list(how))
    sql = f"SELECT {key}, {how[label]} AS changed FROM {scope.rows.name}"
    columns = {key: scope.rows.columns[key], "changed": "timestamp"}
    return Query(f"time-{label}", sql, replace(scope.rows, columns=columns, time="changed", has_watermark=False))


_FILTERS = {
    "where": "{number} > 10",
    "where-text": "{text} <> 'ORDER BY x LIMIT 5'",
    "where-time": "{time} > now() - INTERVAL 1 DAY",
    "where-null": "{key} IS NOT NULL",
    "where-list": "{key} IN (1, 2, 3)",
    "where-nested": "{struct}.code = 7",
    "in-table": "{key} IN (SELECT id FROM {table})",
    "not-in-table": "{key} NOT IN (SELECT id FROM {table})",
    "exists-table": "EXISTS (SELECT 1 FROM {table} AS t WHERE t.id = {rows}.{key})",
    "not-exists-table": "NOT EXISTS (SELECT 1 FROM {table} AS t WHERE t.id = {rows}.{key})",
    "scalar-table": "{number} > (SELECT max(id) FROM {table})",
    "in-stream": "{key} IN (SELECT {other_key} FROM {other})",
    "not-in-stream": "{key} NOT IN (SELECT {other_key} FROM {other})",
    "exists-stream": "EXISTS (SELECT 1 FROM {other} AS s WHERE s.{other_key} = {rows}.{key})",
    "not-exists-stream": "NOT EXISTS (SELECT 1 FROM {other} AS s WHERE s.{other_key} = {rows}.{key})",
    "scalar-stream": "{number} > (SELECT max({other_number}) FROM {other})",
    "random": "rand() < 0.5",
}
_PLAIN_FILTERS = [name for name in _FILTERS if name.startswith("where")]


def _plain_filter(scope: Scope) -> Query:
    return _filter(scope, scope.choose(_PLAIN_FILTERS))


def _subquery_filter(scope: Scope) -> Query:
    return _filter(scope, scope.choose([name for name in _FILTERS if name not in _PLAIN_FILTERS]))


def _pipe(scope: Scope) -> Query:
    return Query("pipe", f"FROM {scope.rows.name} |> WHERE {scope.fill('{number} > 10')}", scope.rows)


def _filter(scope: Scope, label: str) -> Query:
    condition = scope.fill(_FILTERS[label])
    return Query(label, f"SELECT * FROM {scope.rows.name} WHERE {condition}", scope.rows)


_CLAUSES = {
    "order-by": "ORDER BY {key}",
    "sort-by": "SORT BY {key}",
    "cluster-by": "CLUSTER BY {key}",
    "distribute-by": "DISTRIBUTE BY {key}",
    "limit": "LIMIT 10",
    "offset": "OFFSET 5",
    "order-limit": "ORDER BY {key} DESC LIMIT 10",
    "sample": "TABLESAMPLE (10 PERCENT)",
    "sample-rows": "TABLESAMPLE (5 ROWS)",
    "qualify": "QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY {time}) = 1",
    "sql-watermark": "WATERMARK {time} DELAY OF INTERVAL 5 MINUTES",
}


def _clause(scope: Scope) -> Query:
    label = scope.choose(list(_CLAUSES))
    rows = replace(scope.rows, has_watermark=True) if label == "sql-watermark" else scope.rows
    return Query(label, f"SELECT * FROM {scope.rows.name} {scope.fill(_CLAUSES[label])}", rows)


_EXPRESSIONS = {
    "nested": ("{struct}.name", "string"),
    "upper": ("upper({text})", "string"),
    "quoted": ("concat({text}, ' FROM x GROUP BY y')", "string"),
    "case": ("CASE WHEN {number} > 5 THEN 'high' ELSE 'low' END", "string"),
    "sized": ("size({array})", "int"),
    "higher-order": ("exists({array}, x -> x = 'a')", "boolean"),
    "explode": ("explode({array})", "string"),
    "uuid": ("uuid()", "string"),
    "rand": ("rand()", "double"),
    "monotonic": ("monotonically_increasing_id()", "bigint"),
    "now": ("now()", "timestamp"),
    "current-timestamp": ("current_timestamp()", "timestamp"),
    "current-date": ("current_date()", "date"),
    "sum-over": ("sum({number}) OVER (PARTITION BY {key} ORDER BY {time})", "bigint"),
    "row-number": ("row_number() OVER (PARTITION BY {key} ORDER BY {time})", "int"),
    "count-over": ("count(*) OVER ()", "bigint"),
    "scalar-from-table": ("(SELECT max(name) FROM {table})", "string"),
    "scalar-from-stream": ("(SELECT max({other_number}) FROM {other})", "bigint"),
    "window-column": ("window({time}, '5 minutes')", _WINDOW),
}


def _expression(scope: Scope) -> Query:
    label = scope.choose(list(_EXPRESSIONS))
    template, kind = _EXPRESSIONS[label]
    name = f"extra_{scope.number}"
    sql = f"SELECT *, {scope.fill(template)} AS {name} FROM {scope.rows.name}"
    rows = replace(scope.rows, columns={**scope.rows.columns, name: kind})
    return Query(label, sql, rows)


def _lateral_view(scope: Scope) -> Query:
    name, array = f"tag_{scope.number}", scope.fill("{array}")
    how = {
        "lateral-view": f"LATERAL VIEW explode({array}) AS {name}",
        "lateral-function": f", LATERAL explode({array}) AS t({name})",
    }
    label = scope.choose(list(how))
    sql = f"SELECT * FROM {scope.rows.name} {how[label]}"
    return Query(label, sql, replace(scope.rows, columns={**scope.rows.columns, name: "string"}))


# Aggregations


def _group_by_key(scope: Scope) -> Query:
    return _aggregate(scope, "key", {scope.key(scope.rows): ""})


def _group_by_time(scope: Scope) -> Query:
    time = scope.time(scope.rows)
    label = scope.choose(["time", "day", "time-and-key"])
    if label == "day":
        return _aggregate(scope, label, {"day": f"CAST({time} AS date)"})
    keys = {time: ""} | ({scope.key(scope.rows): ""} if label == "time-and-key" else {})
    return _aggregate(scope, label, keys, time=time)


def _group_by_window(scope: Scope) -> Query:
    label = scope.choose(["tumbling", "tumbling", "sliding", "session", "session-dynamic", "processing-time"])
    time = scope.time(scope.rows)
    bounds = scope.choose(_SLIDING if label == "sliding" else _TUMBLING)
    expression = f"window({time}, {bounds})"
    if label == "processing-time":
        expression = f"window(current_timestamp(), {bounds})"
    if label == "session":
        expression = f"session_window({time}, '5 minutes')"
    if label == "session-dynamic":
        gap = f"CASE WHEN {scope.key(scope.rows)} IS NULL THEN '1 minute' ELSE '5 minutes' END"
        expression = f"session_window({time}, {gap})"
    keys = {"slot": expression}
    if scope.happens(0.6):
        keys[scope.key(scope.rows)] = ""
        label += "-and-key"
    return _aggregate(scope, label, keys)


def _group_by_window_again(scope: Scope) -> Query:
    """A second aggregation over the window of the first."""
    window = scope.column(scope.rows, _WINDOW)
    label = scope.choose(["window-of-window", "window-of-window-time", "same-window"])
    expression = {
        "window-of-window": f"window({window}, '1 hour')",
        "window-of-window-time": f"window(window_time({window}), '1 hour')",
        "same-window": "",
    }[label]
    return _aggregate(scope, label, {"wide": expression} if expression else {window: ""})


def _window_chain(scope: Scope) -> Query:
    """Two aggregations in one SELECT."""
    slot = f"window({scope.time(scope.rows)}, '5 minutes')"
    first = f"SELECT {slot} AS slot, count(*) AS part FROM {scope.rows.name} GROUP BY {slot}"
    how = scope.choose(["window(slot, '1 hour')", "window(window_time(slot), '1 hour')"])
    sql = f"SELECT {how} AS wide, count(*) AS n FROM ({first}) GROUP BY {how}"
    rows = replace(scope.rows, columns={"wide": _WINDOW, "n": "bigint"}, time="", is_grouped=True)
    return Query("window-chain", sql, rows)


def _window_time(scope: Scope) -> Query:
    window = scope.column(scope.rows, _WINDOW)
    numbers = scope.rows.of("bigint")[:1]
    if "closed" in scope.rows.columns:
        raise _UnsuitableError
    sql = f"SELECT {', '.join([f'window_time({window}) AS closed', *numbers])} FROM {scope.rows.name}"
    columns = {"closed": "timestamp", **dict.fromkeys(numbers, "bigint")}
    return Query("window-time", sql, replace(scope.rows, columns=columns, time="closed"))


def _group_all(scope: Scope) -> Query:
    return _aggregate(scope, "global", {})


def _grouping_sets(scope: Scope) -> Query:
    keys = scope.rows.of(*KEYS)
    if len(keys) < 2:
        raise _UnsuitableError
    first, second = scope.chance.sample(keys, 2)
    how = {
        "grouping-sets": f"GROUPING SETS (({first}), ({first}, {second}))",
        "rollup": f"ROLLUP ({first}, {second})",
        "cube": f"CUBE ({first}, {second})",
    }
    label = scope.choose(list(how))
    sql = f"SELECT {first}, {second}, count(*) AS n FROM {scope.rows.name} GROUP BY {how[label]}"
    columns = {first: scope.rows.columns[first], second: scope.rows.columns[second], "n": "bigint"}
    return Query(label, sql, replace(scope.rows, columns=columns, time="", has_watermark=False, is_grouped=True))


_AGGREGATES = {
    "count": ("count(*)", "bigint"),
    "sum": ("sum({number})", "bigint"),
    "average": ("avg({number})", "double"),
    "latest": ("max({time})", "timestamp"),
    "max-by": ("max_by({key}, {time})", "string"),
    "filtered": ("count(*) FILTER (WHERE {number} > 3)", "bigint"),
    "approximate": ("approx_count_distinct({key})", "bigint"),
    "collect-set": ("collect_set({key})", "array"),
    "count-distinct": ("count(DISTINCT {key})", "bigint"),
    "sum-distinct": ("sum(DISTINCT {number})", "bigint"),
}
_USUAL = ("count", "sum", "latest", "average")


def _aggregate(scope: Scope, label: str, keys: Mapping[str, str], time: str = "") -> Query:
    """Group by `keys`, name to expression; the expression of a plain column is empty."""
    chosen = scope.choose(_USUAL if scope.happens(0.6) else list(_AGGREGATES))
    template, kind = _AGGREGATES[chosen]
    result = f"{chosen.replace('-', '_')}_{scope.number}"
    columns = {name: _type(scope.rows, name, expression) for name, expression in keys.items()}
    if scope.happens(0.25) and label.startswith(("tumbling", "sliding", "session")):
        label, select = f"{label}-start", [_start_of(name, text) for name, text in keys.items()]
        columns = {
            f"{name}_start" if text else name: "timestamp" if text else columns[name] for name, text in keys.items()
        }
    else:
        select = [f"{text} AS {name}" if text else name for name, text in keys.items()]
    sql = f"SELECT {', '.join([*select, f'{scope.fill(template)} AS {result}'])} FROM {scope.rows.name}"
    groups = [text or name for name, text in keys.items()]
    by = scope.choose(["names", "names", "names", "ordinals", "all"])
    if groups and not label.endswith("-start") and by != "names":
        sql += " GROUP BY ALL" if by == "all" else f" GROUP BY {', '.join(str(n + 1) for n in range(len(groups)))}"
    elif groups:
        sql += f" GROUP BY {', '.join(groups)}"
    if scope.happens(0.1):
        sql, label = f"{sql} HAVING count(*) > 1", f"{label}-having"
    if groups and scope.happens(0.07):
        sql, label = f"{sql} ORDER BY {result}", f"{label}-ordered"
    rows = Rows(scope.rows.name, {**columns, result: kind}, time, scope.rows.has_watermark, is_grouped=True)
    return Query(f"{label}/{chosen}", sql, rows)


def _type(rows: Rows, name: str, expression: str) -> str:
    return "date" if name == "day" else _WINDOW if expression else rows.columns[name]


def _start_of(name: str, expression: str) -> str:
    if not expression:
        return name
    function = "session_window" if expression.startswith("session") else "window"
    return f"{function}.start AS {name}_start"


def _distinct(scope: Scope) -> Query:
    label = scope.choose(["distinct", "distinct-time"])
    names = [scope.key(scope.rows)] + ([scope.time(scope.rows)] if label == "distinct-time" else [])
    sql = f"SELECT DISTINCT {', '.join(names)} FROM {scope.rows.name}"
    return Query(label, sql, replace(_keep(scope.rows, names), is_grouped=True))


def _pivot(scope: Scope) -> Query:
    key, number = scope.key(scope.rows), scope.column(scope.rows, *NUMBERS)
    text = scope.column(scope.rows, "string")
    if len({key, number, text}) < 3:
        raise _UnsuitableError
    inner = f"SELECT {key}, {text}, {number} FROM {scope.rows.name}"
    sql = f"SELECT * FROM ({inner}) PIVOT (sum({number}) FOR {text} IN ('a' AS a, 'b' AS b))"
    columns = {key: scope.rows.columns[key], "a": "bigint", "b": "bigint"}
    return Query("pivot", sql, replace(scope.rows, columns=columns, time="", has_watermark=False, is_grouped=True))


# Two inputs


_SET_OPERATIONS = {
    "union-all": "UNION ALL",
    "union": "UNION",
    "except": "EXCEPT",
    "except-all": "EXCEPT ALL",
    "intersect": "INTERSECT",
    "minus": "MINUS",
}


def _set_operation(scope: Scope) -> Query:
    label = "union-all" if scope.happens(0.5) else scope.choose(list(_SET_OPERATIONS))
    partner = scope.partner() if scope.happens(0.85) else scope.rows
    names = [name for name, kind in scope.rows.columns.items() if partner.columns.get(name) == kind]
    if not names:
        raise _UnsuitableError
    left, right = (scope.rows, partner) if scope.happens(0.8) else (partner, scope.rows)
    columns = ", ".join(names)
    sql = f"SELECT {columns} FROM {left.name} {_SET_OPERATIONS[label]} SELECT {columns} FROM {right.name}"
    is_grouped = scope.rows.is_grouped or "all" not in label
    return Query(f"{label}-{_pair(left, right)}", sql, replace(_keep(scope.rows, names), is_grouped=is_grouped))


def _pair(left: Rows, right: Rows) -> str:
    if left.name == right.name:
        return "self"
    return "-".join("table" if rows.is_static else "stream" for rows in (left, right))


_JOINS = ("JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN")
_HOUR = "INTERVAL 1 HOUR"


def _join(scope: Scope) -> Query:
    partner = scope.partner() if scope.happens(0.92) else scope.rows
    left, right = (scope.rows, partner) if scope.happens(0.75) else (partner, scope.rows)
    kind = scope.choose([*_JOINS, "CROSS JOIN"])
    label, condition, sides = _join_condition(scope, left, right)
    on = "" if kind == "CROSS JOIN" else f" ON {condition}"
    only_left = "SEMI" in kind or "ANTI" in kind
    added = [] if only_left else [name for name in right.columns if f"b_{name}" not in left.columns]
    select = [f"a.{name}" for name in left.columns] + [f"b.{name} AS b_{name}" for name in added]
    columns = {**left.columns, **{f"b_{name}": right.columns[name] for name in added}}
    sql = f"SELECT {', '.join(select)} FROM {sides[0]} AS a {kind} {sides[1]} AS b{on}"
    time = left.time or (f"b_{right.time}" if right.time in added else "")
    rows = Rows(
        scope.rows.name,
        columns,
        time,
        left.has_watermark or right.has_watermark,
        is_grouped=left.is_grouped or right.is_grouped,
    )
    word = kind.lower().replace(" join", "").replace("join", "inner").replace(" ", "-")
    return Query(f"join-{word}-{_pair(left, right)}-{label}", sql, rows)


def _join_condition(scope: Scope, left: Rows, right: Rows) -> tuple[str, str, tuple[str, str]]:
    """The label, the condition, and the two sides as they are written in FROM."""
    pairs = [
        (a, b)
        for a, kind in left.columns.items()
        for b, other in right.columns.items()
        if kind == other and kind in KEYS
    ]
    if not pairs:
        raise _UnsuitableError
    named_alike = [pair for pair in pairs if pair[0] == pair[1]]
    one, two = scope.chance.choice(named_alike or pairs)
    equal, sides = f"a.{one} = b.{two}", (left.name, right.name)
    label = scope.choose(["equal", "bound", "bound", "after", "window", "no-equality", "only-bound", "same-time"])
    if label == "equal" or left.is_static or right.is_static:
        if label == "no-equality":
            return label, f"a.{one} > b.{two}", sides
        return "equal", equal, sides
    if label == "no-equality":
        return label, f"a.{one} > b.{two}", sides
    first, second = f"a.{scope.time(left)}", f"b.{scope.time(right)}"
    bound = f"{first} BETWEEN {second} - {_HOUR} AND {second} + {_HOUR}"
    if label == "only-bound":
        return label, bound, sides
    if label == "after":
        return label, f"{equal} AND {first} >= {second}", sides
    if label == "same-time":
        return label, f"{equal} AND {first} = {second}", sides
    if label == "bound":
        return label, f"{equal} AND {bound}", sides
    windows = [
        f"(SELECT *, window({scope.time(rows)}, '5 minutes') AS slot_of FROM {rows.name})" for rows in (left, right)
    ]
    return label, f"{equal} AND a.slot_of = b.slot_of", (windows[0], windows[1])


def _join_using(scope: Scope) -> Query:
    """Joins without ON: USING, and a list of tables with WHERE."""
    left, right = scope.rows, scope.partner()
    key = scope.choose([name for name in left.of(*KEYS) if right.columns.get(name) == left.columns[name]])
    others = [name for name in left.columns if name != key]
    kind = scope.choose(["JOIN", "LEFT JOIN", "LEFT SEMI JOIN"])
    how = {
        "using": f"{left.name} AS a {kind} {right.name} AS b USING ({key})",
        "comma": f"{left.name} AS a, {right.name} AS b WHERE a.{key} = b.{key}",
        "comma-without-equality": f"{left.name} AS a, {right.name} AS b WHERE a.{key} > b.{key}",
    }
    label = scope.choose(list(how))
    select = ", ".join(f"a.{name}" for name in (key, *others))
    rows = _keep(left, [key, *others])
    return Query(f"join-{label}-{_pair(left, right)}", f"SELECT {select} FROM {how[label]}", rows)


def _join_values(scope: Scope) -> Query:
    text, name = scope.column(scope.rows, "string"), f"weight_{scope.number}"
    values = f"(VALUES ('a', 1), ('b', 2)) AS v(label, {name})"
    sql = f"SELECT s.*, {name} FROM {scope.rows.name} AS s LEFT JOIN {values} ON s.{text} = v.label"
    return Query("join-values", sql, replace(scope.rows, columns={**scope.rows.columns, name: "int"}))


def _keep(rows: Rows, names: Sequence[str]) -> Rows:
    """Only some columns of rows."""
    time = rows.time if rows.time in names else ""
    columns = {name: rows.columns[name] for name in names}
    return replace(rows, columns=columns, time=time, has_watermark=rows.has_watermark and bool(time))


PLAIN: Mapping[Shape, int] = {
    _star: 2,
    _some_columns: 3,
    _qualified: 2,
    _renamed_time: 3,
    _plain_filter: 4,
    _changed_time: 2,
}
SHAPES: Mapping[Shape, int] = {
    **PLAIN,
    _expression: 12,
    _lateral_view: 2,
    _pipe: 1,
    _clause: 10,
    _subquery_filter: 6,
    _group_by_key: 8,
    _group_by_window: 16,
    _group_by_window_again: 8,
    _group_by_time: 4,
    _window_chain: 3,
    _window_time: 3,
    _group_all: 2,
    _grouping_sets: 2,
    _distinct: 4,
    _pivot: 1,
    _set_operation: 9,
    _join: 18,
    _join_using: 3,
    _join_values: 1,
}


#: What a continuous or real-time query may run.
GENTLE: Mapping[Shape, int] = {**PLAIN, _expression: 4, _join: 4}


def choose_query(scope: Scope, shapes: Mapping[Shape, int]) -> Query:
    while True:
        (shape,) = scope.chance.choices(list(shapes), list(shapes.values()))
        try:
            return _wrap(scope, shape(scope))
        except _UnsuitableError:
            continue


def _wrap(scope: Scope, query: Query) -> Query:
    """Write some queries as a CTE, as a subquery, or in lower case."""
    names = ", ".join(query.rows.columns)
    how = scope.chance.choices(["", "cte", "subquery", "lower-case", "comment"], [74, 10, 10, 3, 3])[0]
    written = {
        "": query.sql,
        "cte": f"WITH found AS ({query.sql}) SELECT * FROM found",
        "subquery": f"SELECT {names} FROM ({query.sql}) AS found",
        "lower-case": _lower(query.sql),
        "comment": f"{query.sql} -- ORDER BY nothing LIMIT 1",
    }
    return replace(query, label=f"{query.label}+{how}" if how else query.label, sql=written[how])


def _lower(sql: str) -> str:
    """Lower case outside of quotes."""
    return "'".join(part if number % 2 else part.lower() for number, part in enumerate(sql.split("'")))
