"""Spark's own functions, by group; `python -m tools.list_functions` writes the list."""

from __future__ import annotations

from pathlib import Path


def _read() -> dict[str, frozenset[str]]:
    lines = Path(__file__).with_name("functions.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.split(": ", 1) for line in lines)
    return {group: frozenset(names.split(" ")) for group, names in pairs}


_GROUPS = _read()
FUNCTIONS = frozenset().union(*_GROUPS.values())
# Spark keeps a few of them in other groups.
AGGREGATES = _GROUPS["agg_funcs"] | {"vector_avg", "vector_sum", "schema_of_variant_agg"}
GENERATORS = _GROUPS["generator_funcs"]
SYNTAX = frozenset(
    {"try_cast", "timestampadd", "timestampdiff", "extract", "trim", "position", "substring", "overlay", "exists"}
    | {"any", "some", "all", "in", "values", "row", "table", "stream", "identifier", "over", "within", "filter"}
    | {"using", "on", "and", "or", "not", "then", "else", "when", "case", "is", "as", "by", "from", "select", "where"}
    | {"having", "union", "between", "like", "rlike", "ilike"}
)
"""Words before a parenthesis that Spark's parser knows by itself."""
