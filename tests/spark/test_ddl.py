"""Our parser of columns accepts, names and types what PySpark's does."""

from __future__ import annotations

import re
from itertools import product
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from penstock.checks.ddl import BASES, DdlError, find_collation, parse_columns

# Texts between bars, and those that a bar, a line break or another character keeps from being there.
TEXTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "plain types": (
        """
        a boolean | a tinyint | a byte | a smallint | a short | a int | a integer | a bigint | a long | a float |
        a real | a double | a date | a timestamp | a timestamp_ntz | a timestamp_ltz | a string | a binary | a void |
        a variant | a null | a time | a INT | A Int | a uuid | a text | a number | a bool | a datetime | a any |
        a object | a double precision | a long int | a unsigned int | a int unsigned | a interval | a calendarinterval
        | a json | a xml | a blob | a clob | a nvarchar(5) | a nchar(5) | a bit | a money | a serial | a vector |
        a row(b int)
        """,
        (),
    ),
    "decimals": (
        """
        a decimal | a dec | a numeric | a decimal(10) | a decimal(10,2) | a dec(5, 2) | a numeric(38,38) |
        a decimal(38) | a decimal(39) | a decimal(39,2) | a decimal(5,6) | a decimal(0) | a decimal(0,0) |
        a decimal(-1) | a decimal(5,-2) | a decimal() | a decimal(1,2,3) | a decimal(a) | a decimal(10.5) |
        a decimal(1e1) | a decimal(10L) | a decimal(99999999999) | a decimal(010, 02) | a decimal (10, 2) |
        a decimal(10 2) | a decimal(10, | a decimal(10 | a int(5) | a bigint(20) | a double(5) | a float(5) |
        a boolean(1) | a binary(5) | a date(3)
        """,
        (),
    ),
    "chars": (
        """
        a char | a char(5) | a char(0) | a char(-1) | a char(5, 6) | a character(5) | a character | a varchar |
        a varchar(5) | a varchar(0) | a varchar() | a varchar(max) | a varchar(99999999999) | a string(5) |
        a character varying(5) | a char varying(5) | a varchar(5) collate UTF8_LCASE | a char(5) collate UTF8_LCASE |
        a varchar(05)
        """,
        (),
    ),
    "collations": (
        """
        a string collate UTF8_LCASE | a string COLLATE utf8_binary | a string collate UTF8_BINARY |
        a string collate UNICODE | a string collate unicode_ci | a string collate UNICODE_CI_AI | a string collate de
        | a string collate DE_CI | a string collate de_CI_AI | a string collate en_USA | a string collate nope |
        a string collate | a string collate `UTF8_LCASE` | a string collate 'UTF8_LCASE' | a string collate a.b |
        a string collate system.builtin.UTF8_LCASE | a string collate UTF8_BINARY_RTRIM |
        a string collate UNICODE_RTRIM | a string collate UTF8_LCASE_RTRIM_CI | a string collate UNICODE_AI |
        a string collate UNICODE_CS | a string collate UNICODE_AS_CI | a string collate UTF8_BINARY_CI |
        a string collate sr_Cyrl_SRB | a string collate zh_Hans | a int collate UTF8_LCASE |
        a array<string collate UTF8_LCASE> | a string collate UTF8_LCASE not null | a string collate 1 |
        a string not null collate UTF8_LCASE | a char(5) collate UNICODE | a string collate UNICODE_CI_CS |
        a string collate UNICODE_CI_CI | a string collate UNICODE_AI_CI | a string collate UNICODE_RTRIM_CI |
        a string collate UNICODE_CI_RTRIM | a string collate UNICODE_CI_AI_RTRIM |
        a string collate UNICODE_RTRIM_AI_CI | a string collate UNICODE_CS_AS | a string collate UTF8_LCASE_RTRIM |
        a string collate UTF8_BINARY_AI | a string collate UTF8_LCASE_CI | a string collate UTF8 |
        a string collate LCASE | a string collate en | a string collate EN_usa_ci | a string collate en_US |
        a string collate de_DEU | a string collate zh_Hans_CHN | a string collate zh_hant_twn_ai |
        a string collate sr_Latn | a string collate de_ | a string collate _CI | a string collate CI |
        a string collate de_X | a string collate UNICODE_RTRIM_RTRIM | a string collate UNICODE_ |
        a string collate builtin.UTF8_LCASE | a string collate SYSTEM.BUILTIN.unicode |
        a string collate `system`.`builtin`.`de_CI` | a string collate system.builtin |
        a string collate system.session.UTF8_LCASE | a string collate x.builtin.UTF8_LCASE |
        a string collate system.builtin.nope | a string collate no_AI | a string collate nb | a string collate nn |
        a string collate pt_BRA | a string collate fr_CAN | a string collate UTF8_BINARY_CS | a string collate `de-CI`
        | a string collate UTF8_BINARY_RTRIM_RTRIM | a string collate `` | a string collate select |
        a varchar(5) collate nope | a char(5) collate nope
        """,
        ("a string collate größe",),
    ),
    "times": (
        """
        a timestamp(6) | a timestamp(3) | a timestamp(0) | a timestamp(7) | a timestamp(9) | a timestamp() |
        a timestamp(6,1) | a timestamp_ntz(6) | a timestamp_ntz(3) | a timestamp_ltz(6) | a timestamp_ltz(3) |
        a timestamp with time zone | a timestamp without time zone | a timestamp with local time zone |
        a timestamp(6) without time zone | a timestamp(6) with local time zone | a timestamp(3) without time zone |
        a timestamp without | a timestamp without time | a timestamp_ntz without time zone |
        a timestamp_ltz with local time zone | a timestamp_ltz without time zone | a timestamp local time zone |
        a time(0) | a time(3) | a time(6) | a time(7) | a time(-1) | a time() | a time without time zone |
        a time(3) without time zone | a time with time zone | a time with local time zone | a timestamp_ntz(9) |
        a timestamp_ntz(7) | a timestamp(8) | a timestamp(10) | a timestamp_ltz(9) | a timestamp_ltz(8) |
        a timestamp(9) without time zone | a timestamp(9) with local time zone | a timestamp(x) | a time(x) |
        a time(9) | a date without time zone | a timestamp_ntz with local time zone | a timestamp with local |
        a timestamp with | timestamp_ntz timestamp_ntz | a time(06) | a decimal(38,39) | a decimal(10,38) |
        a decimal(2147483648) | a varchar(2147483647) | a varchar(2147483648) | a char(2147483648) |
        a time(2147483648) | a decimal(10, 99999999999) | a char(00) | a char (5) | a time (3)
        """,
        (),
    ),
    "nested": (
        """
        a array<int> | a array<array<array<string>>> | a array | a array<> | a array<int | a array int |
        a array<int,int> | a array<a int> | a array<nope> | a array<int not null> | a map<string,int> |
        a map<string, array<long>> | a map | a map<int> | a map<> | a map<string,int,int> | a map<map<int,int>,int> |
        a map<array<int>,int> | a map<string int> | a map<struct<a:int>, int> | a map<variant,int> | a map<string,int
        | a struct<> | a struct | a struct<b int> | a struct<b: int> | a struct<b:int,c:string> |
        a struct<b int, c: string> | a struct<b:int,> | a struct<,> | a struct<b> | a struct<b:> | a struct<b::int> |
        a struct<:int> | a struct<b int not null> | a struct<b: int NOT NULL COMMENT 'x'> |
        a struct<b int comment 'x', c int> | a struct<b int | a struct<b int>> | a struct<`b c`: int> |
        a struct<b-c: int> | a struct<1: int> | a struct<1b: int> | a struct<b.c: int> |
        a struct<b: struct<c: array<map<string, struct<d: int>>>>> | a struct <b: int> | a array < int > | a struct< >
        | a array<struct<>> | a struct<b int = 5> | a struct(b int) | a array(int) | a map(string,int) | a int[] |
        a int array | a array<int>[] | a struct<int> | a struct<b: int default 5> | a struct<b:int c:int> |
        a struct<a:b:int> | a map<string,int not null> | a map<int>> | a array<<int>> | a STRUCT<B: INT> |
        A ARRAY<Map<String, Decimal(10,2)>> | a array<int>> | a map<string,array<int>>> | a array<int>> b int |
        a struct<b:array<int>>, c int | a array<array<int> > | a array<struct<b:int>>>>
        """,
        (),
    ),
    "whole": (
        """
        struct<a int> | struct<a: int, b: string> | struct<> | struct<a int>, b int | STRUCT<a: int> |
        struct<a int> not null | array<int> | map<string,int> | int | string | decimal(10,2) | interval year | struct
        | array | timestamp without time zone | string collate UTF8_LCASE | (a int) | (a int, b int) | struct<a int>,
        | struct<a int>b | struct <a int> | struct<a: struct<b: int>> | struct<a:int>comment 'x' | struct <> |
        struct< > | `struct`<a int> | nope | varchar(5)
        """,
        (),
    ),
    "names": (
        """
        `a` int | `a b` int | `a``b` int | `` int | ```` int | `a int | a` int | 'a' int | a.b int | `a.b` int |
        a-b int | `a-b` int | a+b int | a$b int | $a int | @a int | a@b int | #a int | _a int | __ int | 1 int |
        1a int | a1 int | 1st long | 1e5 int | 1e5a int | 1.5 int | 1L int | 1S int | 1Y int | 1D int | 1F int |
        1BD int | 5bd int | 1e int | 1e+5 int | 0x1F int | 12_3 int | 1_000 int | _1 int | 1l int | 2d int | 2dx int |
        1e5d int | 1e5L int | 1ee5 int | e5 int | 1d5 int | a:int | a: int | a: int, b: string | a : int |
        a :int, b int | a b int | select int | from int | table int | where int | int int | string string |
        array array<int> | map map<int,int> | struct struct<a:int> | struct int | array int | map int | interval int |
        decimal decimal | date date | timestamp timestamp | time time | not int | null int | comment int |
        comment string comment 'x' | not int not null | collate string collate UTF8_LCASE | end int | default int |
        generated int | key int | primary int | and int | or int | true int | false int | case int | join int | on int
        | anti int | cross int | semi int | natural int | left int | using int | union int | except int | minus int |
        intersect int | lateral int | order int | group int | user int | current_date int | exists int | in int |
        is int | as int | all int | any int | begin int | stream int | identifier int | zone int | to int | year int |
        day interval day | void int | :a int | ?a int | a? int | {a} int | a/b int | a*b int | * int | - int | a=b int
        | `a`.`b` int | `a``` int | ` ` int | a 'b' int | IDENTIFIER('a') int | identifier('a') int | :a | s3://x int
        | a://b int | 1e5S int | 1e5Y int | 1e5F int | 1e5BD int | 1e5bd int | 12bd5 int | 1.e5 int | .5 int |
        1e-5 int | 0 int | 007 int | 00x int | 1__ int | _ int | a_ int | 1D5 int | 1BDx int | x://y: int |
        a struct<x://y: int> | a struct<a://b: int> | http://x int
        """,
        (
            '"a" int',
            "größe double",
            "naïve int",
            "名前 string",
            "имя int",
            "a１ int",
            "１a int",
            "é int",
            "á int",
            "😀 int",
            "`😀` int",
            "aé-b int",
            "a² int",
            "ａ int",
            "ı int",
            "a\u200bb int",
            "`a\nb` int",
            "a\\b int",
            "a١ int",
            "a１b int",
            "größe: int",
            "`größe` double",
            "a struct<größe: int>",
            "a grösse",
            "a struct<`größe`: int>",
            "Å int",
            "µ int",
            "ª int",
            "a·b int",
        ),
    ),
    "not null, comments, defaults": (
        """
        a int not null | a int NOT NULL | a int null | a int not | a int not null not null | a int comment 'x' |
        a int comment 'x' 'y' | a int comment | a int comment x | a int comment 5 | a int comment '' |
        a int comment 'it''s' | a int comment 'x | a int comment 'x' not null | a int not null comment 'x' |
        a int comment 'x' comment 'y' | a int default 5 | a int default 5 not null | a int generated always as (1) |
        a int primary key | a int unique | a int check (a > 1) | a int comment 'a, b c', b int | a int comment `x` |
        a int comment $$x$$ | a int comment null | a int comment 'x' 5 | a int options (x=1) | a int first |
        a int comment x'1F' | a int not null default 5 | a int position 3 | a int default (1 | a int encode zstd |
        a int generated always as identity | a int comment 'x' $$y$$ | a int comment $a$x$a$ |
        a struct<b int comment $$x$$>
        """,
        (
            'a int comment "x"',
            "a int comment 'it\\'s'",
            "a int comment r'x\\'",
            "a int comment 'x\ny'",
            'a int comment R"x"',
            "a int comment 'x'\"y\"",
            "a int comment 'é'",
            "a int comment 'x\\",
            "a int comment '\\u0041'",
        ),
    ),
    "commas and space": (
        """
        , | ,, | a | a, | a int, | a int,,b int | ,a int | a int, b | a int b int | a int; b int | a int; | a int b |
        a int, b int, c int | a,b int | a int,b string | a int / | a int . | a int) | (a int | a int, (b int) |
        a int and b int | a int 5 | a 5 | a 'int' | a `int` | a `array`<int> | a int, int | int, int | a.int | a int.b
        """,
        (
            "",
            "   ",
            "\n",
            "a\tint",
            "a\nint",
            "a int\n, b int\n",
            "  a   int  ",
            "a\xa0int",
            "a\u3000int",
            "a\u2003int",
            "a\x85int",
            "a\u200bint",
            "a\ufeff int",
            "\ufeffa int",
            "a int\x00",
            'a "int"',
        ),
    ),
    "comments in the text": (
        """
        a int -- x | a /* x */ int | /* x */ | a int /* x | a int */ | a /*+ x */ int | a int /* /* x */ */ |
        a int /* /* x */ | -- | a int -- | a int # x | a int // x | a -- int
        """,
        ("a int -- x\n, b int", "-- x\na int", "a int, -- x\r b int", "a int -- x\\\n, b int"),
    ),
    "geography": (
        """
        a geography | a geography(4326) | a geography(any) | a geography(ANY) | a geography(0) | a geography(1) |
        a geography(4326, x) | a geography(OGC:CRS84) | a geography('4326') | a geometry | a geometry(4326) |
        a geometry(any) | a geometry(0) | a geometry(3857) | a geometry(99999999) | a geometry() | a geometry(-1) |
        a geometry(any | a geography(4326, SPHERICAL) | a geometry(5) | a geometry(2000) | a geography(3857) |
        a geography(4267) | a array<geometry(4326)> | a geometry(04326) | a geometry(4326.0) | a geometry(4326L) |
        a geometry(x) | a geography(4269) | a geometry(27700) | a geometry(ANY) | a geometry(4267) | a geometry(00) |
        a geography(04326) | a geometry(`any`) | a geometry(Any) | a geometry(32633) | a geometry(4326 4326) |
        a geography(99999999999) | a geometry(any,any) | a geometry (4326) | a geometry(104001) | a geometry(1000)
        """,
        (),
    ),
    "names as text": (
        """
        IDENTIFIER('a b') int | IDENTIFIER('a.b') int | IDENTIFIER('') int | IDENTIFIER('`a b`') int |
        IDENTIFIER('a' 'b') int | IDENTIFIER(a) int | IDENTIFIER('a'): int | IDENTIFIER ('a') int |
        a struct<identifier('b'): int> | a struct<identifier('b') int> | IDENTIFIER('a') int, b int |
        IDENTIFIER(:a) int | IDENTIFIER('select') int | IDENTIFIER('1a') int | IDENTIFIER('a', 'b') int |
        IDENTIFIER() int | IDENTIFIER(5) int | `identifier`('a') int | IDENTIFIER(lower('A')) int |
        IDENTIFIER($$a$$) int | IDENTIFIER(r'a') int | a string collate IDENTIFIER('UTF8_LCASE') |
        identifier int, b identifier('int')
        """,
        ('IDENTIFIER("a") int', "IDENTIFIER('a' || 'b') int", "IDENTIFIER('é') int", "IDENTIFIER('it\\'s') int"),
    ),
    "colons": (
        """
        a: int -- x | a: int /* x */ | a: int, | a: int b: int | : int | a: int not null comment 'x' | a: |
        a: struct<b: int> | a int, b: int | a: int> | a: int>, b: struct<c: int | a int>, b: struct<c: int |
        a: int> comment 'x | -- x | /**/ | struct<a: int> -- x | struct<a: int>; | a: int; | > | < | <> |
        a struct<b: int>>, c int | a int, b struct<> | b struct<> | b struct< > | struct<struct<a:int>> |
        struct<a struct<>> | struct<a:int>: int | struct: int | struct:struct<> | struct<>: int | decimal: decimal |
        interval: interval day | interval year to month: int | timestamp without time zone: int |
        a: int comment 'x' , b: int
        """,
        (
            "a: int -- x\n",
            "a: int\x00",
            "\x00a int",
            "\x01a: int\x1f",
            "a int\x0b",
            "a int\x1c",
            "-- x\n",
            "/* x */ -- y\n",
            "struct<a: int>\n",
            "struct<a: int>\x00",
        ),
    ),
    "intervals": (
        """
        a interval year | a interval month | a interval day | a interval hour | a interval minute | a interval second
        | a interval week | a interval years | a interval days | a interval quarter | a interval millisecond |
        a interval year to | a interval to month | a interval DAY TO SECOND | a interval day(3) to second(6) |
        a interval day to second not null | interval interval year | a interval not null | a interval comment 'x' |
        a interval years to months | a interval days to seconds
        """,
        (),
    ),
}
UNITS = ("year", "month", "day", "hour", "minute", "second")
DUPLICATES = (
    "a int, a int",
    "a int, A int",
    "a int, `a` int",
    "a int, b int, a string",
    "a struct<b int, b int>",
    "a struct<b int, B int>",
    "struct<a int, a int>",
    "a: int, a: int",
)


def texts_of(group: str) -> list[str]:
    together, others = TEXTS[group]
    return [*(re.sub(r"\s+", " ", text.strip()) for text in together.split("|")), *others]


def ask_spark(text: str) -> list[tuple[str, str]] | None:
    """The columns and their types; None if PySpark refuses the text, or if it is a type without columns."""
    try:
        found: Any = StructType.fromDDL(text)
    except (PySparkException, Py4JJavaError):
        # The second is of collations that do not exist.
        return None
    return [(field.name, field.dataType.simpleString()) for field in found] if isinstance(found, StructType) else None


def ask_penstock(text: str) -> list[tuple[str, str]] | None:
    try:
        return [(column.name, str(column.type)) for column in parse_columns(text)]
    except DdlError:
        return None


def differences(texts: list[str]) -> dict[str, tuple[object, object]]:
    """What PySpark and Penstock say, where that differs."""
    both = {text: (ask_spark(text), ask_penstock(text)) for text in texts}
    return {text: answers for text, answers in both.items() if answers[0] != answers[1]}


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("group", TEXTS)
def test_columns_are_those_of_pyspark(group: str):
    assert differences(texts_of(group)) == {}


@pytest.mark.usefixtures("spark")
def test_intervals_from_each_unit_to_each_are_those_of_pyspark():
    assert differences([f"a interval {start} to {end}" for start, end in product(UNITS, UNITS)]) == {}


def test_there_are_texts_that_pyspark_accepts_and_refuses(spark: SparkSession):
    answers = [ask_penstock(text) is not None for group in TEXTS for text in texts_of(group)]

    assert len(answers) > 700
    assert min(answers.count(True), answers.count(False)) > 200


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("text", DUPLICATES)
def test_a_duplicate_column_is_refused_though_pyspark_accepts_it(text: str):
    assert ask_spark(text) is not None
    assert ask_penstock(text) is None


@pytest.mark.usefixtures("spark")
def test_types_are_nested_up_to_50_levels():
    assert differences([f"a {'array<' * 50}int{'>' * 50}"]) == {}
    assert ask_spark(f"a {'array<' * 51}int{'>' * 51}") is not None
    assert ask_penstock(f"a {'array<' * 51}int{'>' * 51}") is None


def test_every_collation_of_spark_is_known(spark: SparkSession):
    names = {str(row["NAME"]) for row in spark.sql("SELECT NAME FROM collations()").collect()}

    assert {name for name in names if find_collation([name]) != name} == set()
    locales = {re.sub(r"(_CI)?(_AI)?(_RTRIM)?$", "", name) for name in names}
    assert locales == set(BASES)
