"""What Spark accepts: its functions, operators and casts, asked of Spark itself by `python -m tools.list_functions`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from penstock.checks.ddl import Type, parse_type

LETTERS = {
    "b": "boolean",
    "i": "int",
    "l": "bigint",
    "d": "double",
    "n": "decimal",
    "s": "string",
    "y": "binary",
    "D": "date",
    "t": "timestamp",
    "z": "timestamp_ntz",
    "h": "interval day to second",
    "m": "interval year to month",
    "A": "array<int>",
    "B": "array<string>",
    "M": "map<string,int>",
    "N": "map<int,string>",
    "S": "struct<a:int>",
    "R": "struct<a:string>",
    "v": "variant",
}
"""The types that Spark was asked about; others count as the nearest of them."""
_NEAREST = {"tinyint": "i", "smallint": "i", "float": "d", "char": "s", "varchar": "s"}
_BY_NAME = {**{text.split("<")[0]: letter for letter, text in reversed(LETTERS.items())}, **_NEAREST}
_TWINS = {"A": "AB", "M": "MN", "S": "SR"}
_NESTED = frozenset("ABMNSR")


@dataclass(frozen=True)
class Function:
    """A function of Spark."""

    name: str
    group: str
    counts: str
    accepts: str
    result: str

    def takes(self, count: int) -> bool:
        """Whether it takes so many arguments."""
        if self.counts == "*":
            return True
        if self.counts.endswith("+"):
            return count >= int(self.counts[:-1])
        low, _, high = self.counts.partition("-")
        return int(low) <= count <= int(high) if high else str(count) in self.counts.split("|")

    def takes_type(self, place: int, type_: Type | None) -> bool:
        """Whether it takes a type as an argument; True where that is unknown."""
        letter, accepted = letter_of(type_), self.accepts.split(",")
        if letter is None or place >= len(accepted) or accepted[place] in ("*", "-"):
            return True
        if place and _NESTED.issuperset(accepted[0]):
            # It depends on the elements of the first argument.
            return True
        return any(each in accepted[place] for each in _TWINS.get(letter, letter))

    def result_of(self, first: Type | None) -> Type | None:
        """The type of its result, given its first argument; None if unknown."""
        if self.result == "=1":
            return first
        if ">" not in self.result:
            return type_of(self.result)
        letter = letter_of(first)
        if letter is None or letter in _NESTED:
            return None
        return type_of(dict(each.split(">") for each in self.result.split(",")).get(letter, "?"))

    def accepted(self, place: int) -> str:
        """The types that it takes as an argument, for a message."""
        letters = self.accepts.split(",")[place]
        names = (LETTERS[letter].split("<")[0].split(" ")[0] for letter in letters)
        return ", ".join(dict.fromkeys(names))


def _read() -> Iterator[Function]:
    for line in Path(__file__).with_name("functions.txt").read_text(encoding="utf-8").splitlines():
        yield Function(*line.split(" "))


_ALL = tuple(_read())
FUNCTIONS = {each.name: each for each in _ALL if each.group != "pairs"}
# Spark keeps a few of them in other groups.
AGGREGATES = frozenset(
    {each.name for each in FUNCTIONS.values() if each.group == "agg_funcs"}
    | {"vector_avg", "vector_sum", "schema_of_variant_agg"}
)
GENERATORS = frozenset(each.name for each in FUNCTIONS.values() if each.group == "generator_funcs")


@lru_cache(maxsize=64)
def _pairs(operator: str) -> dict[str, str]:
    found = next(each for each in _ALL if each.group == "pairs" and each.name == operator)
    return dict(each.split(">", 1) for each in found.result.split(","))


def combine(operator: str, left: Type | None, right: Type | None) -> tuple[bool, Type | None]:
    """Whether Spark has an operator for two types, and its result; (True, None) where that is unknown."""
    letters = (letter_of(left), letter_of(right))
    if None in letters or _NESTED.issuperset(letters):
        return True, None
    found = _pairs(operator).get(f"{letters[0]}{letters[1]}")
    return found is not None, type_of(found or "?")


def letter_of(type_: Type | None) -> str | None:
    """The letter of a type; None for one that Spark was not asked about."""
    if type_ is None:
        return None
    if type_.name == "interval":
        first = type_.parameters.split()[:1]
        return None if not first else "m" if first[0] in ("year", "month") else "h"
    return _BY_NAME.get(type_.name)


def type_of(letter: str) -> Type | None:
    """The type of a letter, without digits that Spark was not asked about; None for a question mark."""
    found = parse_type(LETTERS[letter]) if letter in LETTERS else None
    return Type(found.name) if found is not None and found.name in ("decimal", "time") else found
