"""Parses DDL columns, `name type, name type`, without Spark: the rules `colTypeList` and `dataType` of its grammar.

PySpark's `StructType.fromDDL` tries three readings, in this order, and so does this module:

    a int, b string              columns
    struct<a int, b: string>     a type
    a: int, b: string            the inside of a struct
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from penstock.sql import Token, tokenize
from penstock.text import did_you_mean, join_words

_SYNONYMS = {
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "real": "float",
    "dec": "decimal",
    "numeric": "decimal",
    "character": "char",
    "timestamp_ltz": "timestamp",
}
_TRIVIAL = ["boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "date", "binary", "void", "variant"]
_PARAMETERS = {"char": 1, "varchar": 1, "decimal": 2, "time": 1}
"""How many numbers in parentheses a type may have."""
_DEFAULTS = {"decimal": ("10", "0"), "time": ("6",)}
"""The numbers that are meant if they are missing."""
_SRIDS = {"geography": ("4326",), "geometry": ("0", "3857", "4326")}
"""Spatial reference systems that PySpark has."""
_PLAIN = (*_TRIVIAL, *_PARAMETERS, *_SYNONYMS, *_SRIDS, "timestamp", "timestamp_ntz", "string", "interval")
_NESTED = ("array", "map", "struct")
_INTERVALS = (("year", "month"), ("day", "hour", "minute", "second"))
_MAX_DEPTH = 50
_MAX_PRECISION = 38
_MAX_INT = 2**31 - 1
_NUMBER = re.compile(r"\d+(?:[lsy]|(?:e\d+)?(?:d|f|bd)?)", re.IGNORECASE)
_UNQUOTED = re.compile(r"[A-Za-z0-9_]+")
_JAVA_SPACE = "".join(map(chr, range(33)))
"""What `trim` of Java removes."""


class DdlError(ValueError):
    """The columns cannot be parsed; `says` and `fix` are the message."""

    def __init__(self, says: str, fix: str) -> None:
        super().__init__(says)
        self.says, self.fix = says, fix


@dataclass(frozen=True)
class Type:
    """A type of Spark."""

    name: str
    parameters: str = ""
    """As written after the name: `(10,2)`, ` day to second`."""
    parts: tuple[Column, ...] = ()
    """The fields of a struct; of an array `element`, of a map `key` and `value`."""

    def __str__(self) -> str:
        """Spark's `simpleString`."""
        if self.name not in _NESTED:
            return self.name + self.parameters
        parts = [f"{each.name}:{each.type}" if self.name == "struct" else str(each.type) for each in self.parts]
        return f"{self.name}<{','.join(parts)}>"

    def part(self, name: str) -> Type | None:
        """The type of a field, or of an element, a key or a value; None if there is none."""
        return next((each.type for each in self.parts if each.name.lower() == name.lower()), None)


@dataclass(frozen=True)
class Column:
    """A column and its type."""

    name: str
    type: Type


@lru_cache(maxsize=256)
def parse_columns(text: str) -> tuple[Column, ...]:
    """Parse the top-level columns; DdlError if PySpark would reject the text, or if a column is there twice."""
    try:
        return _parse_columns(_Words(_tokens(text)))
    except DdlError as error:
        try:
            return parse_type(f"struct<{text.strip(_JAVA_SPACE)}>").parts
        except DdlError as inner:
            # Of two readings that fail, the one that the user meant.
            raise (inner if _has_colon(text) else error) from None


def _parse_columns(words: _Words) -> tuple[Column, ...]:
    if words.next_is("struct") and words.after_next in ("<", "<>"):
        found = _parse_type(words, 0).parts
    else:
        found = _parse_list(words, "", 0)
    _expect_end(words)
    return found


def _has_colon(text: str) -> bool:
    """Whether the first name is followed by a colon."""
    try:
        return _Words(_tokens(text)).after_next == ":"
    except DdlError:
        return False


@lru_cache(maxsize=256)
def parse_type(text: str) -> Type:
    """Parse a type alone; DdlError if Spark would reject the text."""
    words = _Words(_tokens(text))
    found = _parse_type(words, 0)
    _expect_end(words)
    return found


def _tokens(text: str) -> list[Token]:
    try:
        return [token for token in tokenize(text) if token.type != "comment"]
    except ValueError:
        raise DdlError("a quote or a comment is not closed", "close it") from None


class _Words:
    """The tokens of a text that are left."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.left = list(reversed(tokens))

    def next_is(self, *words: str) -> bool:
        return bool(self.left) and self.left[-1].text.lower() in words

    @property
    def after_next(self) -> str:
        return self.left[-2].text if len(self.left) > 1 else ""

    def take(self) -> str:
        return self.left.pop().text if self.left else ""

    def skip(self, *words: str) -> bool:
        """Take these words if they are next."""
        ahead = [token.text.lower() for token in self.left[: -len(words) - 1 : -1]]
        if ahead != list(words):
            return False
        del self.left[-len(words) :]
        return True

    def expect(self, word: str, of: str) -> None:
        if not self.skip(word):
            found = f"found {self.left[-1].text!r}" if self.left else "the text ends"
            raise DdlError(f"{of!r} needs a {word!r} where {found}", f"write '{of}{_EXAMPLES.get(of, '')}'")


_EXAMPLES = {
    "array": "<int>",
    "map": "<string, int>",
    "struct": "<a: int, b: string>",
    "decimal": "(10, 2)",
    "char": "(10)",
    "varchar": "(10)",
    "geography": "(4326)",
    "geometry": "(4326)",
    "identifier": "('name')",
    "not": " NULL",
    "comment": " 'text'",
}


def _expect_end(words: _Words) -> None:
    if words.left:
        raise DdlError(f"unexpected {words.left[-1].text!r}", "remove it")


def _parse_list(words: _Words, end: str, depth: int) -> tuple[Column, ...]:
    found: list[Column] = []
    while True:
        found.append(_parse_column(words, depth))
        if not words.skip(","):
            break
    if words.left and not words.next_is(end):
        says = f"after '{found[-1].name} {found[-1].type}' comes {words.left[-1].text!r}"
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
    name = (depth and _parse_identifier_clause(words)) or _parse_name(words)
    if depth:
        words.skip(":")
    if not words.left or words.next_is(",", ">"):
        raise DdlError(f"column {name!r} has no type", f"write '{name} string'")
    found = Column(name, _parse_type(words, depth))
    if words.skip("not"):
        words.expect("null", "not")
    if words.skip("comment"):
        _parse_comment(words)
    return found


def _parse_name(words: _Words) -> str:
    token = words.left.pop() if words.left else None
    if token is None:
        raise DdlError("a column is missing", "write 'name type'")
    if not token.is_name or (token.type == "word" and _NUMBER.fullmatch(token.text)):
        raise DdlError(f"a column's name is missing before {token.text!r}", "write 'name type'")
    if token.type == "word" and not _UNQUOTED.fullmatch(token.text):
        says = f"the name {token.name!r} has characters other than a to z, digits and '_'"
        raise DdlError(says, f"put it in back-ticks: `{token.name}`")
    if words.next_is("-"):
        raise DdlError(f"the name {token.name!r} has a '-' after it", "quote a name with other characters: `a-b`")
    return token.name


def _parse_identifier_clause(words: _Words) -> str:
    """The name in IDENTIFIER('name'), which fields of a struct may have; empty if there is none."""
    if not words.next_is("identifier") or words.after_next != "(":
        return ""
    del words.left[-2:]
    text = "".join(each.lstrip("rR")[1:-1] for each in _take_strings(words))
    words.expect(")", "identifier")
    try:
        inner = _Words(_tokens(text))
        name = _parse_name(inner)
        _expect_end(inner)
    except DdlError:
        raise DdlError(f"{text!r} is not one name", "write the name without IDENTIFIER") from None
    return name


def _parse_comment(words: _Words) -> None:
    if not _take_strings(words):
        words.expect("'", "comment")


def _take_strings(words: _Words) -> list[str]:
    """The strings that are next; Spark has no `$$text$$` here."""
    found = []
    while words.left and words.left[-1].type == "string" and not words.left[-1].text.startswith("$"):
        found.append(words.take())
    return found


def _parse_type(words: _Words, depth: int) -> Type:
    word = words.take()
    name = _SYNONYMS.get(word.lower(), word.lower())
    if depth > _MAX_DEPTH:
        raise DdlError(f"types are nested deeper than {_MAX_DEPTH} levels", "flatten them")
    if name in _NESTED:
        return Type(name, parts=_parse_parts(words, name, depth + 1))
    if name not in _PLAIN:
        raise DdlError(f"{word!r} is not a Spark type", _suggest_type(word))
    if name == "interval":
        return Type(name, _parse_fields(words))
    if name in _SRIDS:
        return Type(name, _parse_srid(words, name))
    if name.startswith("timestamp"):
        return _parse_timestamp(words, word)
    found = Type(name, _parse_parameters(words, name))
    if name == "time":
        words.skip("without", "time", "zone")
    elif name in ("string", "char", "varchar") and words.skip("collate"):
        collation = _parse_collation(words)
        # UTF8_BINARY is the default, and the types with a length do not show theirs.
        return Type(name, f" collate {collation}") if name == "string" and collation != "UTF8_BINARY" else found
    return found


def _parse_timestamp(words: _Words, word: str) -> Type:
    if words.next_is("("):
        raise DdlError(f"{word!r} has no precision in Spark", f"write '{word}'")
    if word.lower() == "timestamp" and words.skip("without", "time", "zone"):
        return Type("timestamp_ntz")
    if word.lower() == "timestamp":
        words.skip("with", "local", "time", "zone")
    return Type("timestamp_ntz" if word.lower() == "timestamp_ntz" else "timestamp")


def _parse_collation(words: _Words) -> str:
    parts = [_parse_identifier_clause(words) or _parse_name(words)]
    while words.skip("."):
        parts.append(_parse_name(words))
    found = find_collation(parts)
    if found is None:
        name = ".".join(parts)
        raise DdlError(f"{name!r} is not a collation of Spark", did_you_mean(name, COMMON))
    return found


def _parse_srid(words: _Words, name: str) -> str:
    """The spatial reference system of a type: `(4326)`, `(any)`."""
    words.expect("(", name)
    found = words.take().lower()
    srid = str(int(found)) if found.isascii() and found.isdigit() else found
    if srid != "any" and srid not in _SRIDS[name]:
        raise DdlError(f"'{name}({found})' is not a type of Spark", f"use {join_words([*_SRIDS[name], 'any'])}")
    words.expect(")", name)
    return f"({srid})"


def _parse_parts(words: _Words, name: str, depth: int) -> tuple[Column, ...]:
    if name == "struct" and words.skip("<>"):
        return ()
    words.expect("<", name)
    found: tuple[Column, ...] = ()
    if name == "struct":
        found = () if words.next_is(">") else _parse_list(words, ">", depth)
    elif name == "array":
        found = (Column("element", _parse_type(words, depth)),)
    else:
        key = Column("key", _parse_type(words, depth))
        words.expect(",", name)
        found = (key, Column("value", _parse_type(words, depth)))
    words.expect(">", name)
    return found


def _parse_parameters(words: _Words, name: str) -> str:
    if name in ("char", "varchar"):
        words.expect("(", name)
    elif name not in _PARAMETERS:
        return ""
    elif not words.skip("("):
        return f"({','.join(_DEFAULTS[name])})"
    numbers = [words.take()]
    while len(numbers) < _PARAMETERS[name] and words.skip(","):
        numbers.append(words.take())
    words.expect(")", name)
    _check_numbers(name, numbers)
    missing = _DEFAULTS.get(name, ())[len(numbers) :]
    return f"({','.join([*(str(int(number)) for number in numbers), *missing])})"


def _check_numbers(name: str, numbers: list[str]) -> None:
    text = f"{name}({', '.join(numbers)})"
    if not all(number.isascii() and number.isdigit() for number in numbers):
        raise DdlError(f"{text!r} needs whole numbers", f"write '{name}{_EXAMPLES.get(name, '(6)')}'")
    first, *rest = map(int, numbers)
    if name == "decimal" and (first > _MAX_PRECISION or any(scale > first for scale in rest)):
        raise DdlError(
            f"{text!r} has too many digits", f"use at most {_MAX_PRECISION} digits, and at most as many after the point"
        )
    if name == "time" and first > 6:
        raise DdlError(f"{text!r} has a precision that Spark does not have", "use 0 to 6")
    if first > _MAX_INT:
        raise DdlError(f"{text!r} is too long", f"use at most {_MAX_INT}")


def _parse_fields(words: _Words) -> str:
    """The fields of an interval: ` day to second`."""
    fields = next((fields for fields in _INTERVALS if words.next_is(*fields)), None)
    if fields is None:
        return ""
    start = words.take().lower()
    if not words.skip("to"):
        return f" {start}"
    later = fields[fields.index(start) + 1 :]
    if not words.next_is(*later):
        raise DdlError(f"an interval from {start!r} has no end here", f"end it with one of {', '.join(fields[1:])}")
    return f" {start} to {words.take().lower()}"


def _suggest_type(word: str) -> str:
    fix = did_you_mean(word, [*_PLAIN, *_NESTED])
    return (
        fix if fix.startswith("did") else "use int, long, double, string, timestamp, array<...> or another Spark type"
    )


_BINARY = ("UTF8_BINARY", "UTF8_LCASE")
_LOCALES = """
UNICODE af am ar ar_SAU as az be bg blo bn bo br bs bs_Cyrl ca ceb chr cs cy da de de_AUT dsb dz ee el en en_USA eo
es et fa fa_AFG ff ff_Adlm fi fil fo fr fr_CAN fy ga gl gu ha haw he he_ISR hi hr hsb hu hy id id_IDN ig is it ja ka
kk kk_Arab kl km kn ko kok ku ky lb lij lkt ln lo lt lv mk ml mn mr ms mt my nb nb_NOR ne nl nn no nso om or pa
pa_Guru pa_Guru_IND pl ps pt ro ru sa se si sk sl smn sq sr sr_Cyrl sr_Cyrl_BIH sr_Cyrl_MNE sr_Cyrl_SRB sr_Latn
sr_Latn_BIH sr_Latn_SRB st sv sw ta te th tk tn to tr ug uk ur uz vi wae wo xh yi yo zh zh_Hans zh_Hans_CHN
zh_Hans_SGP zh_Hant zh_Hant_HKG zh_Hant_MAC zh_Hant_TWN zu
"""
BASES = (*_BINARY, *_LOCALES.split())
"""The names without modifiers."""
_BY_UPPER = {name.upper(): name for name in BASES}
_GROUPS = {"CS": 0, "CI": 0, "AS": 1, "AI": 1, "RTRIM": 2}
"""Modifiers; a name has at most one of each group, in any order."""
_WRITTEN = ("CI", "AI", "RTRIM")
"""The modifiers that are not defaults, in Spark's order."""
_SCHEMA = ["SYSTEM", "BUILTIN"]
COMMON = ("UTF8_BINARY", "UTF8_LCASE", "UNICODE", "UNICODE_CI", "UNICODE_AI", "UNICODE_CI_AI")
"""For suggestions."""


def find_collation(parts: Sequence[str]) -> str | None:
    """The collation that a name, in parts, means, as Spark writes it; None if Spark has none."""
    *schema, name = (part.upper() for part in parts)
    if schema not in ([], _SCHEMA):
        return None
    words = name.split("_")
    sizes = range(len(words), 0, -1)
    size = next((size for size in sizes if "_".join(words[:size]) in _BY_UPPER), 0)
    base, modifiers = _BY_UPPER.get("_".join(words[:size]), ""), words[size:]
    groups = [_GROUPS.get(each, -1) for each in modifiers]
    allowed = {2} if base in _BINARY else {0, 1, 2}
    if not base or len(set(groups)) < len(groups) or not allowed.issuperset(groups):
        return None
    return "_".join([base, *(each for each in _WRITTEN if each in modifiers)])
