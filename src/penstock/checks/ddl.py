"""Parses DDL columns, `name type, name type`, without Spark."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from penstock.text import did_you_mean

_WORD = re.compile(r"`(?:[^`]|``)+`|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\w+|[<>(),:]|\S")
_NUMBERS = "boolean tinyint byte smallint short int integer bigint long float real double decimal dec numeric"
_OTHERS = "date time timestamp timestamp_ntz timestamp_ltz string char character varchar binary interval void variant"
_PLAIN = f"{_NUMBERS} {_OTHERS}".split()
_NESTED = ("array", "map", "struct")
_INTERVAL = frozenset({"year", "month", "day", "hour", "minute", "second", "to"})
_MAX_DEPTH = 50


class DdlError(ValueError):
    """The columns cannot be parsed; `says` and `fix` are the message."""

    def __init__(self, says: str, fix: str) -> None:
        super().__init__(says)
        self.says, self.fix = says, fix


@dataclass(frozen=True)
class Column:
    """A column and its type, in lower case and without parameters."""

    name: str
    type: str


@lru_cache(maxsize=256)
def parse_columns(text: str) -> tuple[Column, ...]:
    """Parse the top-level columns; DdlError if Spark would reject the text."""
    words = _Words(_WORD.findall(text))
    if words.next_is("struct") and words.after_next == "<":
        words.take()
        words.take()
        found = _parse_list(words, ">", 1)
        words.expect(">", "struct")
    else:
        found = _parse_list(words, "", 0)
    if words.left:
        raise DdlError(f"unexpected {words.left[0]!r}", "remove it")
    return found


class _Words:
    """A stream of words."""

    def __init__(self, words: Sequence[str]) -> None:
        self.left = list(reversed(words))

    def next_is(self, *words: str) -> bool:
        return bool(self.left) and self.left[-1].lower() in words

    @property
    def after_next(self) -> str:
        return self.left[-2] if len(self.left) > 1 else ""

    def take(self) -> str:
        return self.left.pop() if self.left else ""

    def expect(self, word: str, of: str) -> None:
        if not self.next_is(word):
            found = f"found {self.left[-1]!r}" if self.left else "the text ends"
            raise DdlError(f"{of!r} needs a {word!r} where {found}", f"write '{of}{_EXAMPLES.get(of, '')}'")
        self.take()


_EXAMPLES = {"array": "<int>", "map": "<string, int>", "struct": "<a: int, b: string>", "decimal": "(10, 2)"}


def _parse_list(words: _Words, end: str, depth: int) -> tuple[Column, ...]:
    found: list[Column] = []
    while True:
        found.append(_parse_column(words, depth))
        if words.next_is(","):
            words.take()
        elif not words.left or words.next_is(end):
            break
        else:
            says = f"after '{found[-1].name} {found[-1].type}' comes {words.left[-1]!r}"
            raise DdlError(says, "put a comma between columns")
    twice = first_repeated(column.name for column in found)
    if twice is not None:
        raise DdlError(f"duplicate column {twice!r}", "keep one")
    return tuple(found)


def first_repeated(names: Iterable[str]) -> str | None:
    """The first duplicate name, ignoring case."""
    seen: set[str] = set()
    for name in names:
        lower = name.lower()
        if lower in seen:
            return name
        seen.add(lower)
    return None


def _parse_column(words: _Words, depth: int) -> Column:
    name = words.take()
    if not name or not re.fullmatch(r"`.+`|\w+", name):
        raise DdlError(
            f"a column's name is missing before {name!r}" if name else "a column is missing", "write 'name type'"
        )
    name = name.strip("`") if name.startswith("`") else name
    if depth and words.next_is(":"):
        words.take()
    if not words.left or words.next_is(",", ">"):
        raise DdlError(f"column {name!r} has no type", f"write '{name} string'")
    return Column(name, _skip_attributes(words, _parse_type(words, depth)))


def _parse_type(words: _Words, depth: int) -> str:
    word = words.take()
    name = word.lower()
    if depth > _MAX_DEPTH:
        raise DdlError(f"types are nested deeper than {_MAX_DEPTH} levels", "flatten them")
    if name in _NESTED:
        _skip_parameters(words, name, depth + 1)
    elif name not in _PLAIN:
        raise DdlError(f"{word!r} is not a Spark type", _suggest_type(word))
    elif words.next_is("("):
        _skip_numbers(words, name)
    while name == "interval" and words.next_is(*_INTERVAL):
        words.take()
    return name


def _skip_parameters(words: _Words, name: str, depth: int) -> None:
    words.expect("<", name)
    if name == "struct":
        if not words.next_is(">"):
            _parse_list(words, ">", depth)
    else:
        _skip_attributes(words, _parse_type(words, depth))
        if name == "map":
            words.expect(",", name)
            _skip_attributes(words, _parse_type(words, depth))
    words.expect(">", name)


def _skip_numbers(words: _Words, name: str) -> None:
    words.take()
    while words.left and re.fullmatch(r"\d+|,", words.left[-1]):
        words.take()
    words.expect(")", name)


def _skip_attributes(words: _Words, name: str) -> str:
    while words.next_is("not", "comment", "collate", "with", "without"):
        word = words.take().lower()
        for _ in range(2 if word.startswith("with") else 1):
            words.take()
    return name


def _suggest_type(word: str) -> str:
    fix = did_you_mean(word, [*_PLAIN, *_NESTED])
    return (
        fix if fix.startswith("did") else "use int, long, double, string, timestamp, array<...> or another Spark type"
    )
