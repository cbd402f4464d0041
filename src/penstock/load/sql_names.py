"""Finds the tables that a SQL text reads, without Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from penstock.sql import Parsed, Token, parse


def find_table_names(text: str, spelling: Mapping[str, str]) -> tuple[str, ...]:
    """The distinct tables that a text reads; `a.b` and file paths are included unchanged.

    `spelling` maps the lower-case names of existing streams to their spelling.
    """
    parsed = parse(text)
    if parsed.tree is None:
        return _scan_tokens(parsed, spelling)
    names = [name for table in _tables(parsed.tree) for name in _names_of(table, spelling)]
    return tuple(dict.fromkeys(spelling.get(name.lower(), name) for name in names))


# Words that end a list of tables.
_CLAUSES = frozenset(
    {"select", "where", "group", "having", "order", "sort", "cluster", "distribute", "window", "limit", "offset"}
    | {"qualify", "union", "except", "intersect", "on", "using", "lateral", "set", "values"}
)


def _scan_tokens(parsed: Parsed, spelling: Mapping[str, str]) -> tuple[str, ...]:
    """Fallback without a tree: the known names in the position of a table, after FROM, JOIN or TABLE."""
    found: list[str] = []
    levels = [_Level(is_query=True)]
    for token, following in zip_longest(parsed.tokens, parsed.tokens[1:]):
        if token.text == "(":
            levels.append(_Level(wants_table=levels[-1].wants_table))
        elif token.text == ")" and len(levels) > 1:
            levels.pop()
            levels[-1].wants_table = False
        elif levels[-1].consume(token) and not (following and following.text == "."):
            found.append(token.name.lower())
    return tuple(dict.fromkeys(spelling[name] for name in found if name in spelling))


@dataclass
class _Level:
    """The scan state inside one pair of parentheses."""

    wants_table: bool = False
    is_query: bool = False
    in_from: bool = False
    is_new: bool = True

    def consume(self, token: Token) -> bool:
        """Whether this token names a table."""
        word = token.text.lower() if token.type == "word" else ""
        # EXTRACT(day FROM x) has a FROM too, but is not a query.
        is_from = word == "from" and (self.is_query or self.is_new)
        names_table = self.wants_table and token.is_name and word not in ("stream", "lateral", *_CLAUSES)
        self.is_query = self.is_query or is_from or word in ("select", "table")
        self.in_from = is_from or (self.in_from and word not in _CLAUSES)
        self.wants_table = (
            is_from
            or word in ("join", "table")
            or (token.text == "," and self.in_from)
            or (word in ("stream", "lateral") and self.wants_table)
        )
        self.is_new = False
        return names_table


def _tables(tree: Any) -> list[Any]:
    from sqlglot import exp

    tables = (table for table in tree.find_all(exp.Table, bfs=False) if not table.find_ancestor(exp.Hint))
    return [table for table in tables if not _is_cte(table)]


def _names_of(table: Any, spelling: Mapping[str, str]) -> list[str]:
    from sqlglot import exp

    if not isinstance(table.this, exp.Identifier):
        # STREAM(trades), and TABLE(trades) as the argument of a function
        inner = (column.name for column in table.this.find_all(exp.Column))
        return [name for name in inner if name.lower() in spelling]
    name = ".".join(part.name for part in table.parts)
    is_stream_word = name.lower() == "stream" and table.alias and "stream" not in spelling
    return [table.alias if is_stream_word else name]


def _is_cte(table: Any) -> bool:
    if len(table.parts) > 1:
        return False
    path = [table]
    while (outer := path[-1].parent) is not None:
        with_ = outer.args.get("with_") or outer.args.get("with")
        if with_ is not None and table.name.lower() in _visible(with_, path):
            return True
        path.append(outer)
    return False


def _visible(with_: Any, path: list[Any]) -> list[str]:
    # In WITH a AS (...), b AS (...): `b` sees `a`; `a` sees neither, unless the WITH is recursive.
    names = [cte.alias.lower() for cte in with_.expressions]
    if path[-1] is not with_ or with_.args.get("recursive"):
        return names
    return names[: next(at for at, cte in enumerate(with_.expressions) if cte is path[-2])]
