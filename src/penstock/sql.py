"""SQL text read without Spark."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

_STARTS = frozenset({"SELECT", "WITH", "FROM", "VALUES", "TABLE", "("})


@dataclass(frozen=True)
class Problem:
    """Where reading stopped, counted in the text from line 1, and at which word."""

    line: int
    column: int
    near: str


@dataclass(frozen=True)
class Parsed:
    """A text's tokens, and its tree when it is one query that sqlglot knows as well as Spark does."""

    tokens: tuple[Any, ...] = ()
    tree: Any = None
    problem: Problem | None = None

    @property
    def first(self) -> str:
        """The first word."""
        return str(self.tokens[0].text).split()[0] if self.tokens and self.tokens[0].text.strip() else ""

    @property
    def is_query(self) -> bool:
        """Whether it starts as a query does."""
        return self.first.upper() in _STARTS

    @property
    def second_statement(self) -> Any:
        """The token after a semicolon, if any."""
        ends = [at for at, token in enumerate(self.tokens[:-1]) if token.token_type.name == "SEMICOLON"]
        return next((self.tokens[at + 1] for at in ends if self.tokens[at + 1].text != ";"), None)


@lru_cache(maxsize=256)
def parse(text: str) -> Parsed:
    """Tokens and tree of a text; what is wrong with it is in `problem`, nothing is raised."""
    from sqlglot.dialects.spark import Spark

    spark = Spark()
    try:
        tokens = _window_is_a_function(spark.tokenize(text))
    except Exception:  # sqlglot's tokenizer on any text: whatever it raises, we cannot read it
        return Parsed(problem=Problem(1, 1, text[:20]))
    parsed = Parsed(tuple(tokens))
    if not parsed.is_query or parsed.second_statement is not None:
        return parsed
    try:
        (tree, *_) = spark.parser().parse(list(tokens), text)
    except Exception as error:  # the same for its parser, deep nesting included
        return Parsed(parsed.tokens, problem=_problem(error, parsed.tokens))
    return Parsed(parsed.tokens, tree if parsed.first.upper() != "TABLE" else None)


def _window_is_a_function(tokens: list[Any]) -> list[Any]:
    # sqlglot takes every WINDOW for the clause that names windows; before a bracket it is Spark's function.
    from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined,unused-ignore]

    fixed = list(tokens)
    for at, (token, following) in enumerate(pairwise(tokens)):
        if token.token_type == TokenType.WINDOW and following.token_type == TokenType.L_PAREN:
            fixed[at] = Token(TokenType.VAR, token.text, token.line, token.col, token.start, token.end)
    return fixed


def _problem(error: Exception, tokens: tuple[Any, ...]) -> Problem:
    details = (getattr(error, "errors", None) or [{}])[0]
    near = str(details.get("highlight") or tokens[0].text)
    column = int(details.get("col") or 1) - len(near) + 1
    return Problem(int(details.get("line") or 1), max(1, column), near)
