"""Which streams a SQL text reads, found without Spark."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.sql import Parsed, parse


def sql_names(text: str, known: Iterable[str] = ()) -> tuple[str, ...]:
    """The tables that a text reads, each once, spelled as in `known`; `a.b` and files come as they are."""
    parsed = parse(text)
    spelling = {name.lower(): name for name in known}
    if parsed.tree is None:
        return _mentioned(parsed, spelling)
    names = [name for table in _tables(parsed.tree) for name in _names_of(table, spelling)]
    return tuple(dict.fromkeys(spelling.get(name.lower(), name) for name in names))


def _mentioned(parsed: Parsed, spelling: dict[str, str]) -> tuple[str, ...]:
    # Spark may understand what sqlglot does not, so every stream that is named counts as read.
    before = (None, *parsed.tokens)
    words = [
        token.text.lower()
        for previous, token in zip(before, parsed.tokens, strict=False)
        if "STRING" not in token.token_type.name and (previous is None or previous.text != ".")
    ]
    return tuple(dict.fromkeys(spelling[word] for word in words if word in spelling))


def _tables(tree: Any) -> list[Any]:
    from sqlglot import exp

    tables = (table for table in tree.find_all(exp.Table, bfs=False) if not table.find_ancestor(exp.Hint))
    return [table for table in tables if not _is_cte(table)]


def _names_of(table: Any, spelling: dict[str, str]) -> list[str]:
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
