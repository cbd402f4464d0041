"""Suggests Spark's form for misspelled SQL and for SQL of other engines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from penstock.checks.texts import locate_line, sql_steps
from penstock.model import Finding, Pipeline
from penstock.sql import Token, parse
from penstock.text import nearest

_QUERY_STARTS = ("SELECT", "WITH", "FROM", "VALUES", "TABLE")
_STATEMENTS = ("DELETE", "EXECUTE", "SET")
"""Statements that look like a misspelled query."""
_FLINK = {
    "TUMBLE": "window(t, '10 minutes')",
    "HOP": "window(t, '10 minutes', '5 minutes')",
    "SESSION": "session_window(t, '5 minutes')",
}
_PARTS = {"START": "start", "END": "end", "ROWTIME": "end", "PROCTIME": "end"}
_MAX_TOKENS = 60
"""How many tokens of a call's arguments are read."""


def suggest_query_start(tokens: Sequence[Token]) -> str | None:
    """`did you mean SELECT?` if the first word is a misspelled start of a query; None otherwise."""
    words = tokens[0].text.split() if tokens else []
    if not words or words[0].upper() in (*_QUERY_STARTS, *_STATEMENTS):
        return None
    near = nearest(words[0], _QUERY_STARTS)
    return f"did you mean {near}?" if near else None


def sql_uses_spark_windows(pipeline: Pipeline) -> Iterator[Finding]:
    """A SQL step writes windows as Spark does."""
    for step, text in sql_steps(pipeline):
        for token, spark_form in find_flink_windows(parse(text).tokens):
            says = f"step {step.name!r}: {token.text!r} is a window of Flink, which Spark does not have"
            yield Finding("sql-uses-spark-windows", locate_line(step, token.line), says, f"write {spark_form}")


def find_flink_windows(tokens: Sequence[Token]) -> Iterator[tuple[Token, str]]:
    """Flink's TUMBLE, HOP and SESSION, each with Spark's form."""
    for at, token in enumerate(tokens[:-1]):
        function, _, part = token.text.upper().partition("_")
        if function in _FLINK and (not part or part in _PARTS) and tokens[at + 1].text == "(":
            arguments = _arguments(tokens, at + 2)
            # A table or an alias may have one of these names; only a window call has a duration or a descriptor.
            if {"INTERVAL", "DESCRIPTOR"} & {each.upper() for each in arguments}:
                yield token, _spark_form(function, part, arguments)


def _arguments(tokens: Sequence[Token], start: int) -> list[str]:
    depth, found = 1, []
    for token in tokens[start : start + _MAX_TOKENS]:
        depth += (token.text == "(") - (token.text == ")")
        if not depth:
            break
        found.append(token.text)
    return found


def _spark_form(function: str, part: str, arguments: list[str]) -> str:
    window = "session_window" if function == "SESSION" else "window"
    if part:
        return f"{window}.{_PARTS[part]}"
    column, durations = _column(arguments), _durations(arguments)
    if not column or len(durations) != (2 if function == "HOP" else 1):
        return _FLINK[function]
    # Flink has the slide before the size, Spark the size before the slide.
    return f"{window}({', '.join([column, *(repr(each) for each in reversed(durations))])})"


def _column(arguments: list[str]) -> str:
    upper = [each.upper() for each in arguments]
    if "DESCRIPTOR" in upper:
        at = upper.index("DESCRIPTOR") + 2
        return arguments[at] if at < len(arguments) else ""
    return "".join(arguments[: arguments.index(",")]) if "," in arguments else ""


def _durations(arguments: list[str]) -> list[str]:
    starts = [at for at, each in enumerate(arguments[:-2]) if each.upper() == "INTERVAL"]
    return [_duration(arguments[at + 1].strip("'\""), arguments[at + 2].lower()) for at in starts]


def _duration(count: str, unit: str) -> str:
    singular = unit.removesuffix("s")
    return f"{count} {singular}" if count == "1" else f"{count} {singular}s"
