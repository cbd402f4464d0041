"""Columns as Spark writes them."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.checks.ddl import DdlError, first_repeated, parse_columns


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a int", ["a"]),
        ("a INT, `b c` String", ["a", "b c"]),
        ("a decimal(10, 2) NOT NULL COMMENT 'x, y', b varchar(5)", ["a", "b"]),
        ("a array<int>, b map<string, array<long>>, c struct<x: int, y: struct<z: date>>", ["a", "b", "c"]),
        ("a struct<x int NOT NULL COMMENT 'c', `y-z` string>", ["a"]),
        ("a struct<>", ["a"]),
        ("a timestamp_ntz, b interval day to second, c string collate UTF8_LCASE, d void, e variant", list("abcde")),
        ("struct<a: int, b: string>", ["a", "b"]),
        ("struct int, 1st long, id\n  long", ["struct", "1st", "id"]),
        ("`größe` double, `a``b` int, `` int", ["größe", "a`b", ""]),
        ("a: int, b string, c: struct<d int>", ["a", "b", "c"]),
        ("struct: int", ["struct"]),
        ("IDENTIFIER('a'): int", ["a"]),
        ("", []),
        ("/* nothing */", []),
    ],
)
def test_columns_are_read_as_spark_reads_them(text, names):
    assert [column.name for column in parse_columns(text)] == names


def test_a_column_has_its_type():
    found = parse_columns("At TIMESTAMP, x array<struct<a: long, b: dec(5, 2)>>")

    assert [(column.name, str(column.type)) for column in found] == [
        ("At", "timestamp"),
        ("x", "array<struct<a:bigint,b:decimal(5,2)>>"),
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a int,", "a column is missing; write 'name type'"),
        ("a", "column 'a' has no type; write 'a string'"),
        ("a, b int", "column 'a' has no type; write 'a string'"),
        ("a itn", "'itn' is not a Spark type; did you mean 'int'?"),
        (
            "a zzz",
            "'zzz' is not a Spark type; use int, long, double, string, timestamp, array<...> or another Spark type",
        ),
        ("a int b string", "after 'a int' comes 'b'; put a comma between columns"),
        ("a array", "'array' needs a '<' where the text ends; write 'array<int>'"),
        ("a array<int", "'array' needs a '>' where the text ends; write 'array<int>'"),
        ("a map<int>", "'map' needs a ',' where found '>'; write 'map<string, int>'"),
        ("a decimal(1", "'decimal' needs a ')' where the text ends; write 'decimal(10, 2)'"),
        ("a int, A long", "duplicate column 'A'; keep one"),
        ("a struct<b: innt>", "'innt' is not a Spark type; did you mean 'int'?"),
        ("a: itn", "'itn' is not a Spark type; did you mean 'int'?"),
        ("a: int, a: int", "duplicate column 'a'; keep one"),
        (
            "größe int",
            "the name 'größe' has characters other than a to z, digits and '_'; put it in back-ticks: `größe`",
        ),
        ("a timestamp(3)", "'timestamp' has no precision in Spark; write 'timestamp'"),
        ("a time(7)", "'time(7)' has a precision that Spark does not have; use 0 to 6"),
        ("a varchar(9999999999)", "'varchar(9999999999)' is too long; use at most 2147483647"),
        ("a geography(1)", "'geography(1)' is not a type of Spark; use 4326 or any"),
        ("a geometry", "'geometry' needs a '(' where the text ends; write 'geometry(4326)'"),
        ("a string collate UTF8_LCSE", "'UTF8_LCSE' is not a collation of Spark; did you mean 'UTF8_LCASE'?"),
        ("a struct<IDENTIFIER('b c'): int>", "'b c' is not one name; write the name without IDENTIFIER"),
        ("a " + "array<" * 60, "types are nested deeper than 50 levels; flatten them"),
    ],
)
def test_what_spark_would_not_take_is_told_by_its_part(text, says):
    with pytest.raises(DdlError) as error:
        parse_columns(text)

    assert f"{error.value.says}; {error.value.fix}" == says


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.sampled_from(["a", "int", "array", "struct", "<", ">", ",", ":", "(", "2", ")", "`b`", "not", "null"]))
)
def test_no_text_raises_anything_else(words):
    with suppress(DdlError):
        parse_columns(" ".join(words))


class Name(str):
    """A name that counts how often it is compared."""

    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Name.compared += 1
        return str.__eq__(self, other)

    def lower(self) -> Name:
        return Name(super().lower())


def test_looking_for_a_repeated_column_does_not_compare_every_pair():
    names = [Name(f"c{number}") for number in range(2000)]

    assert first_repeated(names) is None
    assert Name.compared < 2000
