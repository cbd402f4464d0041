"""What Spark's own parser says a SELECT from outside is, and whether that may run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import ParseException
from pyspark.sql import SparkSession
from tests.spellings import KNOWN_ATTACKS, forbidden

from penstock.errors import LoadError
from penstock.load import load
from penstock.preview.sql_policy import TABLE_FUNCTIONS, functions, refusals

EXAMPLES = Path(__file__).parents[2] / "examples"
STREAMS = ("trades", "users")


def judge(spark: SparkSession, text: str, streams: tuple[str, ...] = STREAMS) -> list[str]:
    """Why Spark or the policy refuses a text; nothing else looks at it."""
    session: Any = spark
    try:
        plan = session._jsparkSession.sessionState().sqlParser().parsePlan(text)
    except ParseException as error:
        return [f"Spark cannot parse it: {error}"]
    return refusals(plan, streams)


@pytest.mark.parametrize("text", KNOWN_ATTACKS)
def test_what_once_ran_is_refused(spark: SparkSession, text: str):
    assert judge(spark, text)


def test_forbidden_things_are_refused_in_every_spelling(spark: SparkSession):
    spellings = list(forbidden())

    # Every thing in a third of its surroundings; test_explore_attacks.py sends 500 of all of them.
    passed = [text for text in spellings[::3] if not judge(spark, text)]

    assert len(spellings) >= 500
    assert passed == []


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM trades",
        "SELECT Type, count(*) AS n, avg(Amount) FROM trades GROUP BY Type HAVING count(*) > 1 ORDER BY n DESC LIMIT 5",
        "SELECT window.start, sum(Amount) FROM trades GROUP BY window(at, '1 minute')",
        "SELECT session_window.start, count(*) FROM trades GROUP BY session_window(at, '5 minutes'), Type",
        "WITH a AS (SELECT * FROM trades) SELECT a.*, u.name FROM a JOIN users u ON a.id = u.id",
        "SELECT /*+ BROADCAST(users) */ * FROM trades LEFT JOIN users USING (id)",
        "SELECT x FROM trades LATERAL VIEW explode(sequence(1, 24)) t AS x",
        "SELECT t.col FROM trades, LATERAL explode(array(1, 2)) t",
        "SELECT CASE WHEN Amount > 3 THEN 'a' ELSE repeat('-', 80) END FROM trades WHERE Type LIKE 'B%' AND id IN (1)",
        "SELECT from_json(value, 'a int').a, value:b.c, parse_json(value), transform(xs, x -> x + 1) FROM trades",
        "SELECT row_number() OVER (PARTITION BY Type ORDER BY at) FROM trades QUALIFY 1 = 1",
        "SELECT * FROM trades WATERMARK at DELAY OF INTERVAL 10 MINUTES",
        "FROM trades |> WHERE Amount > 1 |> AGGREGATE sum(Amount) GROUP BY Type",
        "SELECT CAST(at AS date), extract(hour FROM at), at + INTERVAL 1 DAY, DATE'2024-01-01', X'1F', 1e3 FROM trades",
        "SELECT * FROM (SELECT Type, Amount FROM trades) PIVOT (sum(Amount) FOR Type IN ('BUY', 'SELL'))",
        "SELECT Type FROM trades UNION ALL SELECT name FROM users",
        "SELECT DISTINCT Type FROM trades WHERE Amount BETWEEN 1 AND 5 OR NOT EXISTS (SELECT 1 FROM users)",
        "SELECT 'reflect(' AS a, \"text.`/etc/passwd`\" AS b FROM trades -- java_method('x')",
        "VALUES (1, 'a'), (2, 'b')",
        "SELECT u.* FROM trades t CROSS JOIN (VALUES (1), (2)) u(x)",
    ],
)
def test_what_people_ask_for_is_let_through(spark: SparkSession, text: str):
    assert judge(spark, text) == []


def test_the_sql_of_every_example_is_let_through(spark: SparkSession):
    judged = 0
    for file in sorted(EXAMPLES.rglob("*.yaml")):
        try:
            pipeline = load(file)
        except LoadError:
            continue
        for step in pipeline.steps:
            text = getattr(step.what, "text", None)
            if text is not None:
                judged += 1
                assert judge(spark, text, step.reads) == [], f"{file}: {step.name}"

    assert judged > 10


def test_every_function_of_spark_has_been_looked_at(spark: SparkSession):
    """A later Spark with a new function fails here until that is allowed or named as left out."""
    session: Any = spark
    analysis = session._jvm.org.apache.spark.sql.catalyst.analysis
    registry = getattr(getattr(analysis, "FunctionRegistry$"), "MODULE$")
    known = {name.rpartition(".")[2] or name for name in registry.functionSet().mkString("\n").split("\n")}
    left_out = (
        *("java_method", "reflect", "try_reflect", "measure", "current_path", "count_min_sketch"),
        *("from_avro", "to_avro", "schema_of_avro", "from_protobuf", "to_protobuf"),
        *(
            "from_xml",
            "to_xml",
            "schema_of_xml",
            "input_file_name",
            "input_file_block_start",
            "input_file_block_length",
        ),
        *(name for name in known if name.startswith("xpath")),
    )

    assert sorted(known - functions() - set(left_out)) == []
    assert sorted(functions() - known) == []
    assert functions() >= {name for name in TABLE_FUNCTIONS if not name.startswith("variant")}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("SELECT * FROM trdaes", "it reads 'trdaes', which is neither a source nor a step; did you mean 'trades'?"),
        (
            "SELECT reflect('a', 'b') FROM trades",
            "it calls 'reflect', which is not for a SELECT from outside; take it out",
        ),
        ("DROP TABLE trades", "'drop table' is not for a SELECT from outside; take it out"),
        ("SELECT repeat('x', 2000000) FROM trades", "it makes 2,000,000 values from one row; use at most 1,000,000"),
        (
            "SELECT 1 FROM trades, users",
            "it joins every row of one stream with every row of another; write JOIN ... ON with a condition",
        ),
    ],
)
def test_what_is_refused_is_said_with_what_to_do(spark: SparkSession, text: str, says: str):
    assert judge(spark, text) == [says]
