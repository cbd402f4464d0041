"""Parses SQL without Spark.

Our tokenizer follows Spark's lexer (SqlBaseLexer.g4), so that both agree on comments, strings and names. sqlglot then
builds the tree, which is kept only if it consists of exactly those tokens: where the two disagree, for example about a
comment, the result has tokens and no tree.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import pairwise, zip_longest
from typing import Any

_STARTS = frozenset({"SELECT", "WITH", "FROM", "VALUES", "TABLE", "("})
_MAX_TOKENS = 100_000
# In all of Spark's own SQL tests sqlglot needs at most five steps per token.
_MAX_STEPS_PER_TOKEN = 50

# Keywords of Spark syntax that sqlglot cannot parse, found by running both over Spark's own SQL tests.
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
# sqlglot also checks the number of arguments, and not always like Spark.
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
    """Where parsing stopped: the offset in the text, and the word there."""

    start: int
    near: str
    is_sure: bool = True
    """Whether Spark cannot parse it either; False where Spark has syntax that sqlglot lacks."""


@dataclass(frozen=True)
class Token:
    """A token of Spark's lexer."""

    type: str
    """word, quoted (back-ticks), string, number, symbol or comment; a plain integer is a word"""
    text: str
    start: int

    @property
    def end(self) -> int:
        """The position after the token."""
        return self.start + len(self.text)

    @property
    def name(self) -> str:
        """The identifier: a word unchanged, a quoted one without back-ticks."""
        return self.text[1:-1].replace("``", "`") if self.type == "quoted" else self.text

    @property
    def is_name(self) -> bool:
        """Whether it can be an identifier."""
        return self.type in ("word", "quoted")


@dataclass(frozen=True)
class Parsed:
    """The tokens of a text, and its tree if it is one query that sqlglot parses like Spark."""

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
        """Whether it starts like a query."""
        return self.first.upper() in _STARTS

    @property
    def second_statement(self) -> Token | None:
        """The token after a semicolon, if any."""
        after = (second for first, second in pairwise(self.tokens) if first.text == ";")
        return next((token for token in after if token.text != ";"), None)


@lru_cache(maxsize=8192)
def parse(text: str) -> Parsed:
    """Parse a text into tokens and a tree; never raises, an error is in `problem`."""
    try:
        every = tokenize(text)
    except _UnclosedError as error:
        return Parsed(problem=error.problem)
    tokens = tuple(token for token in every if token.type != "comment")
    comments = tuple(token for token in every if token.type == "comment")
    parsed = Parsed(tokens, comments)
    if not parsed.is_query or parsed.second_statement is not None:
        return parsed
    tree, problem = _parse_tree(text, tokens, comments)
    return Parsed(tokens, comments, tree if parsed.first.upper() != "TABLE" else None, problem)


class _UnclosedError(ValueError):
    def __init__(self, problem: Problem) -> None:
        self.problem = problem


def tokenize(text: str) -> list[Token]:
    """Split a text into the tokens and comments of Spark's lexer; ValueError if a string or comment is not closed."""
    tokens: list[Token] = []
    at = 0
    while at < len(text):
        type_, end = _scan(text, at)
        if end < 0:
            raise _UnclosedError(Problem(at, text[at : at + 20]))
        if type_ != "space":
            tokens.append(Token(type_, text[at:end], at))
        at = end
    return tokens


def _scan(text: str, at: int) -> tuple[str, int]:
    """The type of the token at a position and its end; -1 if it is not closed."""
    match = _LEXER.match(text, at)
    assert match is not None, "the last alternative takes any character"
    type_, end = str(match.lastgroup), match.end()
    if type_ == "block":
        return "comment", _block_end(text, end)
    if type_ == "dollar":
        closing = text.find(match[0], end)
        return "string", closing + len(match[0]) if closing >= 0 else -1
    if type_ == "word" and not match[0].isascii():
        return _read_word(match[0], at)
    return type_, -1 if type_ == "unclosed" else end


def _read_word(text: str, at: int) -> tuple[str, int]:
    # Unlike Python's \w, Spark's words have no digits of other scripts.
    size = next((n for n, char in enumerate(text) if not (char.isascii() or char.isalpha())), len(text))
    head = text[:size]
    if "://" in head and not (head.partition("://")[0].isalpha() and head.partition("://")[2]):
        head = head.partition(":")[0]
    return ("word", at + len(head)) if head else ("symbol", at + 1)


def _block_end(text: str, at: int) -> int:
    # Block comments nest; a loop, because the depth is unbounded.
    depth = 1
    for edge in _BLOCK_EDGE.finditer(text, at):
        depth += 1 if edge[0] == "/*" else -1
        if depth == 0:
            return edge.end()
    return -1


def _parse_tree(text: str, tokens: tuple[Token, ...], comments: tuple[Token, ...]) -> tuple[Any, Problem | None]:
    from sqlglot.dialects.spark import Spark

    whole = Problem(tokens[0].start, tokens[0].text, is_sure=False)
    if len(tokens) > _MAX_TOKENS:
        return None, whole
    spark, theirs = Spark(), []
    try:
        theirs = spark.tokenize(text)
        if not _has_same_tokens(text, tokens, comments, theirs):
            return None, whole
        (tree, *_) = _parser()(dialect=spark).parse(_fix_tokens(theirs), text)
    except Exception as error:  # sqlglot may raise anything on arbitrary text, including RecursionError
        return None, _problem(error, tokens, theirs)
    return tree, None


def _has_same_tokens(text: str, ours: tuple[Token, ...], comments: tuple[Token, ...], theirs: list[Any]) -> bool:
    """Whether sqlglot found the same comments, strings and quoted names as Spark's lexer."""
    covered = bytearray(len(text))
    for token in theirs:
        covered[token.start : token.end + 1] = b"\1" * (token.end + 1 - token.start)
    # X'1F' is one token for sqlglot, a word and a string for Spark.
    quoted = {token.start + (text[token.start] in "xX") for token in theirs if _is_quoted(token)}
    return (
        all(all(covered[token.start : token.end]) for token in ours)
        and not any(any(covered[token.start : token.end]) for token in comments)
        and all(token.start in quoted for token in ours if token.type in ("string", "quoted"))
    )


def _is_quoted(token: Any) -> bool:
    return str(token.token_type.name).endswith(("IDENTIFIER", "STRING"))


def _fix_tokens(tokens: list[Any]) -> list[Any]:
    """Fix the tokens that sqlglot would misparse."""
    from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined,unused-ignore]

    fixed = []
    rest = iter(range(len(tokens)))
    for at in rest:
        token, following = tokens[at], tokens[at + 1 : at + 3]
        if size := _watermark_clause(tokens, at):
            # Drop the clause: it changes no column and reads no stream.
            for _ in range(size - 1):
                next(rest)
        elif token.token_type == TokenType.WINDOW and not _names_a_window(following):
            # sqlglot always parses WINDOW as the clause; in Spark it may also be a function or a column.
            fixed.append(Token(TokenType.VAR, token.text, token.line, token.col, token.start, token.end))
        else:
            fixed.append(token)
    return fixed


def _names_a_window(following: list[Any]) -> bool:
    return len(following) == 2 and following[1].text.upper() == "AS" and following[0].text not in tuple(",.)")


def find_watermark(text: str) -> int | None:
    """Where a text sets a watermark, with `WATERMARK column DELAY OF INTERVAL ...`; None if it does not."""
    tokens = list(parse(text).tokens) if "watermark" in text.lower() else []
    return next((token.start for at, token in enumerate(tokens) if _watermark_clause(tokens, at)), None)


def _watermark_clause(tokens: list[Any], at: int) -> int:
    """The number of tokens of `WATERMARK column DELAY OF INTERVAL ...` from here; 0 without such a clause."""
    if tokens[at].text.upper() != "WATERMARK":
        return 0
    words = [token.text.upper() for token in tokens[at : at + 50]]
    start = next((n for n in range(len(words) - 4) if words[n : n + 3] == ["DELAY", "OF", "INTERVAL"]), 0)
    if not start:
        return 0
    end = start + 3
    while end + 1 < len(words) and words[end].lstrip("-").isdigit() and words[end + 1].isalpha():
        end += 2
    # INTERVAL 1 HOUR 5 MINUTES, or INTERVAL '65 minutes'
    return end if end > start + 3 else start + 4


_SPECIAL_CALLS = frozenset(
    {"CAST", "TRY_CAST", "EXTRACT", "TRIM", "SUBSTRING", "SUBSTR", "POSITION", "OVERLAY", "CEIL", "FLOOR", "LISTAGG"}
    | {"STRING_AGG", "BROADCAST", "BROADCASTJOIN", "MAPJOIN", "MERGE", "MERGEJOIN", "SHUFFLEMERGE", "SHUFFLE_HASH"}
    | {"SHUFFLE_REPLICATE_NL"}
)
"""Functions and hints whose arguments Spark writes with words between them."""


def _call(name: str, arguments: list[Any]) -> Any:
    from sqlglot import exp

    return exp.Anonymous(this=name, expressions=arguments)


@lru_cache(maxsize=1)
def _parser() -> Any:
    """sqlglot's parser for Spark with a step limit: its backtracking is exponential in JOINs without ON."""
    from sqlglot.dialects.spark import Spark
    from sqlglot.errors import ParseError

    base: Any = Spark.parser_class

    class Bounded(base):  # type: ignore[misc]
        COLON_IS_VARIANT_EXTRACT = True
        # Calls as they are written: sqlglot's classes rename functions and reorder their arguments.
        FUNCTIONS = {name: partial(_call, name) for name in base.FUNCTIONS}
        FUNCTION_PARSERS = {name: parse for name, parse in base.FUNCTION_PARSERS.items() if name in _SPECIAL_CALLS}

        def reset(self) -> None:
            super().reset()
            self._steps = 0

        def _advance(self, times: int = 1) -> None:
            self._steps += 1
            if self._steps > _MAX_STEPS_PER_TOKEN * (len(self._tokens) + 1):
                raise ValueError("too many parser steps")
            super()._advance(times)

        def raise_error(self, message: str, token: Any = None) -> None:
            failed = token or self._curr or self._prev
            try:
                super().raise_error(message, failed)
            except ParseError as error:
                error.errors[0]["start"] = failed.start if failed else 0
                raise

    return Bounded


def _problem(error: Exception, tokens: tuple[Token, ...], theirs: list[Any]) -> Problem:
    details = (getattr(error, "errors", None) or [{}])[0]
    near = str(details.get("highlight") or tokens[0].text)
    is_sure = (
        bool(details)
        and not str(details.get("description", "")).startswith(_MISCOUNTED)
        and not any(token.text.lower() in _SPARK_ONLY for token in tokens)
        and not _is_keyword_as_name(near, theirs)
        and not any(one.text.lower() in _BEFORE_SPARK_ONLY and _is_value(two) for one, two in pairwise(tokens))
    )
    return Problem(int(details.get("start") or tokens[0].start), near, is_sure)


_BEFORE_SPARK_ONLY = ("x", "interval")
"""X 'F0' with a space, and INTERVAL -1 DAY 1 HOUR: Spark's literals that sqlglot does not parse."""


def _is_value(token: Token) -> bool:
    return token.type in ("string", "number") or token.text in "+-" or token.text.isdigit()


def _is_keyword_as_name(near: str, theirs: list[Any]) -> bool:
    """Whether the word where sqlglot stopped, or the one before, may be an identifier: Spark reserves few words."""
    at = [place for place, token in enumerate(theirs) if token.text == near]
    words = [theirs[place] for end in at for place in (end - 1, end) if place >= 0]
    return any(
        word.text[:1].isalpha() and word.token_type.name not in ("VAR", "STRING", "IDENTIFIER") for word in words
    )


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
