"""SQL text read without Spark.

Two readers, one after the other. Our tokenizer follows Spark's own lexer (SqlBaseLexer.g4), so what it calls a comment,
a string or a name is what Spark will take for one. sqlglot then gives the tree, and only a tree made of exactly those
tokens is kept: where the two disagree about what is a comment, there is no tree to be wrong about.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

_STARTS = frozenset({"SELECT", "WITH", "FROM", "VALUES", "TABLE", "("})
_MOST_TOKENS = 100_000
# Over all of Spark's own SQL tests sqlglot takes at most five steps for each token.
_MOST_STEPS_PER_TOKEN = 50

# Syntax of Spark that sqlglot does not know, by its words: found by giving both all of Spark's own SQL tests.
_SPARK_ONLY = frozenset(
    (
        "|>",
        "|",
        ":",
        "nearest",
        "geography",
        "geometry",
        "watermark",
        "recursive",
        "identifier",
        "pivot",
        "table",
        "stream",
    )
)
# It also counts the arguments of functions, and not always as Spark does.
_MISCOUNTED = ("Required keyword", "The number of provided arguments")

_SPACE = " \t\n\f\r\x0b\xa0\u1680\u2000-\u200a\u2028\u202f\u205f\u3000"
_LEXER = re.compile(
    rf"""
    (?P<space>[{_SPACE}]+)
  | (?P<comment>--(?:\\\n|[^\r\n])*\r?\n?)
  | (?P<block>/\*(?!\+))
  | (?P<string>[rR]'[^']*'|[rR]"[^"]*"|'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
  | (?P<dollar>\$[A-Za-z]*\$)
  | (?P<quoted>`(?:[^`]|``)*`)
  | (?P<number>(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE][+-]))(?:[eE][+-]?[0-9]+)?(?:[bB][dD]|[dDfF])?(?![A-Za-z0-9_]))
  | (?P<word>[^\W\d_]+://[\w/\-.?=&\#%]+|\w+)
  | (?P<unclosed>['"`])
  | (?P<symbol>/\*\+|\*/|\|>|->|=>|::|\|\||<=>|<=|>=|<>|!=|==|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_BLOCK_EDGE = re.compile(r"/\*(?!\+)|\*/")


@dataclass(frozen=True)
class Problem:
    """Where reading stopped, counted in the text from line 1, and at which word."""

    line: int
    column: int
    near: str
    is_sure: bool = True
    """Whether Spark cannot read it either; False where Spark has syntax that sqlglot does not know."""


@dataclass(frozen=True)
class Token:
    """A piece of the text as Spark's lexer cuts it."""

    kind: str
    """word, quoted (back-ticks), string, number, symbol or comment; a plain integer is a word"""
    text: str
    start: int
    line: int

    @property
    def end(self) -> int:
        """The position after it."""
        return self.start + len(self.text)

    @property
    def name(self) -> str:
        """What it names: a word as it is, a quoted one without its back-ticks."""
        return self.text[1:-1].replace("``", "`") if self.kind == "quoted" else self.text

    @property
    def is_name(self) -> bool:
        """Whether it can name something."""
        return self.kind in ("word", "quoted")


@dataclass(frozen=True)
class Parsed:
    """A text's tokens, and its tree when it is one query that sqlglot reads as Spark does."""

    tokens: tuple[Token, ...] = ()
    comments: tuple[Token, ...] = ()
    tree: Any = None
    problem: Problem | None = None

    @property
    def first(self) -> str:
        """The first word."""
        return self.tokens[0].text if self.tokens else ""

    @property
    def is_query(self) -> bool:
        """Whether it starts as a query does."""
        return self.first.upper() in _STARTS

    @property
    def second_statement(self) -> Token | None:
        """The token after a semicolon, if any."""
        after = (second for first, second in pairwise(self.tokens) if first.text == ";")
        return next((token for token in after if token.text != ";"), None)


@lru_cache(maxsize=8192)
def parse(text: str) -> Parsed:
    """Tokens and tree of a text; what is wrong with it is in `problem`, nothing is raised."""
    try:
        every = tokenize(text)
    except _NotClosedError as error:
        return Parsed(problem=error.problem)
    tokens = tuple(token for token in every if token.kind != "comment")
    comments = tuple(token for token in every if token.kind == "comment")
    parsed = Parsed(tokens, comments)
    if not parsed.is_query or parsed.second_statement is not None:
        return parsed
    tree, problem = _tree(text, tokens, comments)
    return Parsed(tokens, comments, tree if parsed.first.upper() != "TABLE" else None, problem)


class _NotClosedError(ValueError):
    def __init__(self, problem: Problem) -> None:
        self.problem = problem


def tokenize(text: str) -> list[Token]:
    """The tokens and comments of a text, as Spark's lexer has them; ValueError if a string or comment never ends."""
    tokens: list[Token] = []
    at, line = 0, 1
    while at < len(text):
        kind, end = _next(text, at)
        if end < 0:
            raise _NotClosedError(Problem(line, at - text.rfind("\n", 0, at), text[at : at + 20]))
        if kind != "space":
            tokens.append(Token(kind, text[at:end], at, line))
        line += text.count("\n", at, end)
        at = end
    return tokens


def _next(text: str, at: int) -> tuple[str, int]:
    """The kind of the token at a position and where it ends; an end of -1 if it never does."""
    match = _LEXER.match(text, at)
    assert match is not None, "the last alternative takes any character"
    kind, end = str(match.lastgroup), match.end()
    if kind == "block":
        return "comment", _block_end(text, end)
    if kind == "dollar":
        closing = text.find(match[0], end)
        return "string", closing + len(match[0]) if closing >= 0 else -1
    if kind == "word" and not match[0].isascii():
        return _word(match[0], at)
    return kind, -1 if kind == "unclosed" else end


def _word(text: str, at: int) -> tuple[str, int]:
    # Of Python's word characters Spark takes letters and 0 to 9, not the digits of other scripts.
    size = next((n for n, char in enumerate(text) if not (char.isascii() or char.isalpha())), len(text))
    head = text[:size]
    if "://" in head and not (head.partition("://")[0].isalpha() and head.partition("://")[2]):
        head = head.partition(":")[0]
    return ("word", at + len(head)) if head else ("symbol", at + 1)


def _block_end(text: str, at: int) -> int:
    # Block comments nest; a loop, because the depth can be anything.
    depth = 1
    for edge in _BLOCK_EDGE.finditer(text, at):
        depth += 1 if edge[0] == "/*" else -1
        if depth == 0:
            return edge.end()
    return -1


def _tree(text: str, tokens: tuple[Token, ...], comments: tuple[Token, ...]) -> tuple[Any, Problem | None]:
    from sqlglot.dialects.spark import Spark

    first = tokens[0].text
    if len(tokens) > _MOST_TOKENS:
        return None, Problem(1, 1, first, is_sure=False)
    spark, theirs = Spark(), []
    try:
        theirs = spark.tokenize(text)
        if not _same_text(text, tokens, comments, theirs):
            return None, Problem(1, 1, first, is_sure=False)
        (tree, *_) = _parser()(dialect=spark).parse(_as_spark_means(theirs), text)
    except Exception as error:  # sqlglot on any text: whatever it raises, deep nesting included, there is no tree
        return None, _problem(error, tokens, theirs)
    return tree, None


def _same_text(text: str, ours: tuple[Token, ...], comments: tuple[Token, ...], theirs: list[Any]) -> bool:
    """Whether sqlglot has the same comments, strings and quoted names as Spark."""
    covered = bytearray(len(text))
    for token in theirs:
        covered[token.start : token.end + 1] = b"\1" * (token.end + 1 - token.start)
    # X'1F' is one token for sqlglot, a word and a string for Spark.
    quoted = {token.start + (text[token.start] in "xX") for token in theirs if _is_quoted(token)}
    return (
        all(all(covered[token.start : token.end]) for token in ours)
        and not any(any(covered[token.start : token.end]) for token in comments)
        and all(token.start in quoted for token in ours if token.kind in ("string", "quoted"))
    )


def _is_quoted(token: Any) -> bool:
    return str(token.token_type.name).endswith(("IDENTIFIER", "STRING"))


def _as_spark_means(tokens: list[Any]) -> list[Any]:
    """The tokens with what sqlglot would misread put right."""
    from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined,unused-ignore]

    fixed = []
    rest = iter(range(len(tokens)))
    for at in rest:
        token, following = tokens[at], tokens[at + 1 : at + 3]
        if size := _watermark_clause(tokens, at):
            # It changes no column and reads no stream.
            for _ in range(size - 1):
                next(rest)
        elif token.token_type == TokenType.WINDOW and not _names_a_window(following):
            # For sqlglot always the clause that names windows; for Spark also a function, and a column like any other.
            fixed.append(Token(TokenType.VAR, token.text, token.line, token.col, token.start, token.end))
        else:
            fixed.append(token)
    return fixed


def _names_a_window(following: list[Any]) -> bool:
    return len(following) == 2 and following[1].text.upper() == "AS" and following[0].text not in tuple(",.)")


def _watermark_clause(tokens: list[Any], at: int) -> int:
    """How many tokens `WATERMARK column DELAY OF INTERVAL ...` has from here; 0 if this is none."""
    if tokens[at].text.upper() != "WATERMARK":
        return 0
    words = [token.text.upper() for token in tokens[at : at + 50]]
    begins = next((n for n in range(len(words) - 4) if words[n : n + 3] == ["DELAY", "OF", "INTERVAL"]), 0)
    if not begins:
        return 0
    end = begins + 3
    while end + 1 < len(words) and words[end].lstrip("-").isdigit() and words[end + 1].isalpha():
        end += 2
    # INTERVAL 1 HOUR 5 MINUTES, or INTERVAL '65 minutes'
    return end if end > begins + 3 else begins + 4


@lru_cache(maxsize=1)
def _parser() -> Any:
    """sqlglot's parser for Spark, with an end: some of its guesses double the work for each JOIN without ON."""
    from sqlglot.dialects.spark import Spark

    base: Any = Spark.parser_class

    class Bounded(base):  # type: ignore[misc]
        COLON_IS_VARIANT_EXTRACT = True

        def reset(self) -> None:
            super().reset()
            self._steps = 0

        def _advance(self, times: int = 1) -> None:
            self._steps += 1
            if self._steps > _MOST_STEPS_PER_TOKEN * (len(self._tokens) + 1):
                raise ValueError("the parser gives up")
            super()._advance(times)

    return Bounded


def _problem(error: Exception, tokens: tuple[Token, ...], theirs: list[Any]) -> Problem:
    details = (getattr(error, "errors", None) or [{}])[0]
    near = str(details.get("highlight") or tokens[0].text)
    column = int(details.get("col") or 1) - len(near) + 1
    is_sure = (
        bool(details)
        and not str(details.get("description", "")).startswith(_MISCOUNTED)
        and not any(token.text.lower() in _SPARK_ONLY for token in tokens)
        and not _is_keyword_as_name(near, theirs)
    )
    return Problem(int(details.get("line") or 1), max(1, column), near, is_sure)


def _is_keyword_as_name(near: str, theirs: list[Any]) -> bool:
    """Whether a word where sqlglot stopped, or the one before it, may be a name: Spark reserves hardly any word."""
    at = [place for place, token in enumerate(theirs) if token.text == near]
    words = [theirs[place] for end in at for place in (end - 1, end) if place >= 0]
    return any(
        word.text[:1].isalpha() and word.token_type.name not in ("VAR", "STRING", "IDENTIFIER") for word in words
    )
