"""SQL steps are one SELECT over streams."""

from __future__ import annotations

import json

import pytest

from penstock.checks import check
from penstock.load.document import to_pipeline
from penstock.load.yaml_file import parse_yaml
from penstock.model import Finding

FIX = "make it a source; a step does not open files or tables itself"


def step(sql: str) -> str:
    indented = sql.replace("\n", "\n    ")
    return f"sources: {{trades: {{rate: }}}}\nsteps:\n  s: |\n    {indented}\nsinks: {{b: {{from: s, console: }}}}\n"


def check_steps(steps: dict[str, str]) -> list[Finding]:
    """The findings of steps whose text is any text; YAML reads JSON's strings."""
    last = list(steps)[-1]
    text = "".join(f"  {name}: {json.dumps(sql)}\n" for name, sql in steps.items())
    return check(
        to_pipeline(
            parse_yaml(
                f"sources: {{trades: {{rate: }}}}\nsteps:\n{text}sinks: {{b: {{from: {last}, console: }}}}\n", "a.yaml"
            )
        )
    )


def errors(found: list[str]) -> list[str]:
    return [line for line in found if "no sink uses" not in line]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM trades",
        "SELECT * FROM trades;",
        "-- why\nSELECT * FROM trades /* because */",
        "WITH a AS (SELECT * FROM trades) SELECT * FROM a",
        "FROM trades SELECT value",
        "(SELECT * FROM trades) UNION ALL (SELECT * FROM trades)",
        "SELECT 'a; b' AS x, 'reflection' AS y FROM trades",
        "SELECT reflect, identifier FROM (SELECT value AS reflect, value AS identifier FROM trades)",
        "SELECT transform(array(1), x -> x + 1) AS y FROM trades",
        "SELECT value AS `using` FROM trades",
        "SELECT map('a', 1) AS m FROM trades",
        "SELECT t.`odd/name`, t.`a:b` FROM (SELECT value AS `odd/name`, value AS `a:b` FROM trades) t",
    ],
)
def test_a_select_over_streams_is_fine(findings, sql):
    assert findings(step(sql)) == []


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        (
            "CREATE TABLE x AS SELECT * FROM trades",
            "a.yaml:4:5: step 's' starts with 'CREATE', and a step is one SELECT",
        ),
        ("INSERT INTO x SELECT * FROM trades", "a.yaml:4:5: step 's' starts with 'INSERT', and a step is one SELECT"),
        ("SET spark.x = 1", "a.yaml:4:5: step 's' starts with 'SET', and a step is one SELECT"),
        ("ADD JAR '/x.jar'", "a.yaml:4:5: step 's' starts with 'ADD', and a step is one SELECT"),
        (
            "CREATE FUNCTION f AS 'x' USING JAR 'y'",
            "a.yaml:4:5: step 's' starts with 'CREATE', and a step is one SELECT",
        ),
        ("LOAD DATA INPATH '/etc' INTO TABLE x", "a.yaml:4:5: step 's' starts with 'LOAD', and a step is one SELECT"),
        ("EXECUTE IMMEDIATE 'SELECT 1'", "a.yaml:4:5: step 's' starts with 'EXECUTE', and a step is one SELECT"),
        ("BEGIN SELECT 1; END", "a.yaml:4:5: step 's' starts with 'BEGIN', and a step is one SELECT"),
        ("EXPLAIN SELECT 1", "a.yaml:4:5: step 's' starts with 'EXPLAIN', and a step is one SELECT"),
        ("SELEC * FROM trades", "a.yaml:4:5: step 's' starts with 'SELEC', and a step is one SELECT"),
        ("-- nothing", "a.yaml:4:5: step 's' has no SQL in it"),
        ("SELECT", "a.yaml:4:5: step 's' has a SELECT that selects nothing"),
        ("SELECT value FROM (SELECT FROM trades)", "a.yaml:4:24: step 's' has a SELECT that selects nothing"),
        (";", "a.yaml:4:5: step 's' starts with ';', and a step is one SELECT"),
        (
            "SELECT * FROM trades;\nDROP TABLE x",
            "a.yaml:5:5: step 's' has a second statement, starting with 'DROP'",
        ),
        (
            "WITH a AS (SELECT 1) INSERT INTO x SELECT * FROM a",
            "a.yaml:4:26: step 's' writes, and a step is one SELECT",
        ),
        ("WITH a AS (SELECT 1) INSERT INTO x SELECT a b c", "a.yaml:4:26: step 's' writes, and a step is one SELECT"),
        ("SELECT 'x", "a.yaml:4:12: step 's': the SQL cannot be parsed at \"'x\\n\""),
        ("FROM trades INSERT INTO x SELECT *", "a.yaml:4:17: step 's' writes, and a step is one SELECT"),
    ],
)
def test_anything_but_one_select_is_refused(findings, sql, says):
    assert any(line.startswith(f"{says}; ") for line in findings(step(sql)))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT\n{}('java.lang.Runtime', 'getRuntime') FROM trades",
        "SELECT\n`{}`('java.lang.Runtime', 'getRuntime') FROM trades",
        "SELECT\n{} /* x */ -- y\n ('java.lang.Runtime', 'getRuntime') FROM trades",
        "SELECT\nbuiltin.{}('java.lang.Runtime', 'getRuntime') FROM trades",
        "SELECT a b c,\n{}('java.lang.Runtime', 'getRuntime') FROM trades",
        "SELECT r'\\', \n{}('java.lang.Runtime', 'x') -- '\nFROM trades",
    ],
)
@pytest.mark.parametrize("name", ["reflect", "REFLECT", "java_method", "try_reflect"])
def test_java_is_out_of_reach(findings, sql, name):
    line = sql.split("\n")[1]
    column = 5 + line.index("{}") - line.startswith("`")
    says = f"a.yaml:5:{column}: step 's' uses '{name}'; it can call any Java method; remove it"

    assert says in findings(step(sql.format(name)))


def test_a_name_made_at_run_time_is_refused(findings):
    sql = "SELECT IDENTIFIER('ref' || 'lect')('java.lang.Runtime', 'x') FROM trades"

    assert findings(step(sql))[0] == (
        "a.yaml:4:12: step 's' uses 'IDENTIFIER'; it can name any table or function; remove it"
    )


@pytest.mark.parametrize("sql", ["SELECT TRANSFORM(value) USING 'cat' AS (x)", "MAP value USING /* x */ 'cat'"])
def test_a_program_is_out_of_reach(findings, sql):
    at = f"a.yaml:4:{5 + sql.index('USING')}"

    assert f"{at}: step 's' pipes rows to a program with 'USING'; write a python step" in findings(
        step(f"{sql} FROM trades")
    )


@pytest.mark.parametrize(
    ("sql", "name", "place"),
    [
        ("SELECT *\nFROM json.`/etc/passwd`", "json./etc/passwd", "5:10"),
        ("SELECT * FROM `text`.`/etc/passwd`", "text./etc/passwd", "4:19"),
        ("WITH a AS (SELECT * FROM csv.`s3a://b/c`) SELECT * FROM a", "csv.s3a://b/c", "4:30"),
        ("SELECT * FROM trades WHERE value IN (SELECT value FROM db.other)", "db.other", "4:60"),
        ("SELECT a b c FROM parquet.`/x/y`", "/x/y", "4:23"),
        ("SELECT a b c FROM `json`. `x`", "x", "4:23"),
    ],
)
def test_files_and_foreign_tables_are_refused(findings, sql, name, place):
    says = f"a.yaml:{place}: step 's' reads '{name}', which is neither a source nor a step; {FIX}"

    assert [found for found in findings(step(sql)) if "which is neither" in found] == [says]


def test_a_misspelled_select_is_offered_the_right_word(findings):
    assert findings(step("SELEC * FROM trades")) == [
        "a.yaml:4:5: step 's' starts with 'SELEC', and a step is one SELECT; did you mean SELECT?"
    ]


def test_nothing_is_left_for_spark_to_replace(findings):
    assert findings(step("SELECT '${spark.x}' AS x\nFROM trades")) == [
        "a.yaml:4:13: step 's' has '${' in its SQL, which Spark would substitute with a setting; "
        "write ${NAME} and give the variable"
    ]


def test_sql_that_cannot_be_parsed_is_an_error_at_its_line(findings):
    assert findings(step("SELECT value\n  AS x y FROM trades")) == [
        "a.yaml:5:12: step 's': the SQL cannot be parsed at 'y'; correct it"
    ]


def test_syntax_that_only_spark_knows_is_a_warning(findings):
    assert findings(step("TABLE trades\n|> EXTEND value + 1 AS x")) == [
        "a.yaml:5:5: warning: step 's': the SQL cannot be parsed at '|>'; "
        "if it is correct, check it with Spark's own parser: 'penstock check --deep'"
    ]


def test_a_name_that_is_a_word_of_sql_is_at_most_a_warning(findings):
    text = "sources: {trades: {rate: }, then: {rate: }}\nsteps: {s: SELECT * FROM trades JOIN then USING (value)}\n"

    found = findings(f"{text}sinks: {{b: {{from: s, console: }}}}\n")

    assert [line.split(":")[3] for line in found] == [" warning"]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT value AS v -- reflect (\nFROM trades",
        "SELECT value AS v /* using 'cat' */ FROM trades",
        "SELECT 'reflect (' AS a, \"using 'x'\" AS b, 'csv.`/x`' AS c FROM trades",
        "SELECT window, window + 1 AS b FROM (SELECT value AS window FROM trades) WHERE window > 1",
        "SELECT * FROM trades WATERMARK timestamp DELAY OF INTERVAL 10 MINUTES WHERE value > 1",
        "SELECT * FROM trades WATERMARK to_timestamp(value) AS at DELAY OF INTERVAL '1 hour' AS t",
        "SELECT parse_json('{}'):a.b[0]::int AS x FROM trades",
        "SELECT 'it''s' AS a, r'\\' AS b, x'1F' AS c, 10L AS d, 1.5BD AS e, 1e-3 AS f FROM trades",
    ],
)
def test_what_spark_takes_is_no_finding(findings, sql):
    assert findings(step(sql)) == []


def test_a_carriage_return_in_a_string_or_before_a_line_feed_is_none():
    assert check_steps({"s": "SELECT 'a\rb' AS x -- c\r\nFROM trades"}) == []


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("SELECT value -- x \\\nFROM trades", "a '--' comment ends in a backslash"),
        ("SELECT java_method--x\r('java.lang.System') FROM trades", "a carriage return without a line feed"),
    ],
)
def test_a_comment_that_ends_elsewhere_than_it_seems_is_refused(sql, says):
    assert any(says in found.says and found.severity == "error" for found in check_steps({"s": sql}))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT value FROM trades " + "/* x */ " * 2000,
        "SELECT value FROM trades " + "/*" * 2000,
        "SELECT * FROM trades " + "JOIN trades " * 200,
        "SELECT " + "(" * 5000 + "1" + ")" * 5000 + " FROM trades",
        "SELECT '" + "\\'" * 20_000,
        "SELECT " + "CASE WHEN a THEN " * 300 + " FROM trades",
    ],
    ids=["comments", "open comments", "joins without ON", "brackets", "quotes", "cases"],
)
def test_reading_ends_soon_whatever_the_text(sql):
    from penstock.sql import parse

    # What must not happen is an exponential number of steps: that would be no answer at all.
    assert parse(sql).tokens or parse(sql).problem


def test_two_thousand_steps_are_parsed_once_each():
    from penstock import sql

    sql.parse.cache_clear()
    steps = {f"s{n}": f"SELECT value + {n} AS v FROM {'trades' if n == 0 else f's{n - 1}'}" for n in range(2000)}
    check_steps(steps)

    assert sql.parse.cache_info().misses == len(steps)
