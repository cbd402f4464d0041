"""A real PostgreSQL, written by JDBC and judged by psycopg."""

from __future__ import annotations

import json
import uuid
from datetime import date, datetime, timezone
from decimal import Decimal

import pytest
from tests.failing_sink import FailOnce, with_hook
from tests.services.postgres import PASSWORD

from penstock.connectors.jdbc import JdbcSink, JdbcSource
from penstock.engine.prepare import probe
from penstock.errors import PenstockError, UnreachableError
from penstock.testing.connectors import SinkSuite, batch


def fresh() -> str:
    return f"t_{uuid.uuid4().hex[:12]}"


def sink_of(postgres, **options) -> JdbcSink:
    return JdbcSink(**{"url": postgres.url, "user": "tests", "password": PASSWORD, "table": fresh(), **options})


@pytest.fixture(autouse=True)
def no_batches(postgres):
    """Every test of the suite has the same writer."""
    postgres.ask("DROP TABLE IF EXISTS penstock_batches")


class TestPostgreSQL(SinkSuite):
    @pytest.fixture(autouse=True)
    def server(self, postgres):
        self.postgres = postgres

    def sink(self, place):  # noqa: ARG002
        return sink_of(self.postgres, create=True)

    def keyed(self, place):  # noqa: ARG002
        return sink_of(self.postgres, create=True, key=("id",))

    def written(self, sink):
        return self.postgres.ask(f"SELECT id, name, amount FROM {sink.table}")


def test_every_type_arrives_as_it_was(spark, postgres):
    rows = spark.sql("""
        SELECT 1Y AS a, 2S AS b, 3 AS c, 4L AS d, CAST(0.5 AS FLOAT) AS e, 0.25D AS f, CAST(1.10 AS DECIMAL(10,2)) AS g,
               true AS h, DATE'2024-02-29' AS i, TIMESTAMP'2024-02-29 12:00:00.123456' AS j, X'00FF' AS k, 'ü' AS l,
               TIMESTAMP_NTZ'2024-02-29 12:00:00' AS m, array(1, 2) AS n, CAST(NULL AS DATE) AS o
    """)
    sink = sink_of(postgres, create=True)
    sink_writer = sink.open(spark, rows.schema, "append")
    sink_writer.write(rows, batch(0))

    (found,) = postgres.ask(f"SELECT * FROM {sink.table}")
    moment = datetime(2024, 2, 29, 12, 0, 0, 123456, tzinfo=timezone.utc)
    assert found == (
        *(1, 2, 3, 4, 0.5, 0.25, Decimal("1.10"), True, date(2024, 2, 29), moment, b"\x00\xff", "ü"),
        *(moment.replace(tzinfo=None, microsecond=0), [1, 2], None),
    )


def test_text_becomes_what_the_column_is_and_defaults_are_kept(spark, postgres):
    table = fresh()
    postgres.ask("CREATE SCHEMA IF NOT EXISTS shop")
    postgres.ask(f"""
        CREATE TABLE shop.{table} (id uuid PRIMARY KEY, "What" jsonb, n numeric, made timestamptz DEFAULT now(),
                                   number bigint GENERATED ALWAYS AS IDENTITY)
    """)
    key = str(uuid.uuid4())
    sink = sink_of(postgres, table=f"shop.{table}", key=("id",))
    rows = spark.createDataFrame([(key, '{"a": 1}', Decimal("12.5"))], "id string, what string, n decimal(20,4)")
    sink_writer = sink.open(spark, rows.schema, "update")
    for number in range(2):
        sink_writer.write(rows, batch(number, mode="update"))

    assert postgres.ask(f'SELECT id::text, "What", n, made IS NULL FROM shop.{table}') == [
        (key, {"a": 1}, Decimal("12.5"), False)
    ]
    assert postgres.ask("SELECT batch FROM shop.penstock_batches") == [(1,)]
    assert postgres.ask("SELECT count(*) FROM information_schema.tables WHERE table_schema = 'shop'") == [(2,)]


def test_a_view_of_other_readers_is_never_half_a_batch(spark, postgres, monkeypatch):
    """While the batch is moved, another connection sees all that was there before and nothing else."""
    from penstock.connectors.jdbc._tables import SinkTable

    sink = sink_of(postgres, create=True, isolation="repeatable read")
    schema = spark.createDataFrame([], "id int").schema
    sink_writer = sink.open(spark, schema, "complete")
    sink_writer.write(spark.createDataFrame([(1,)], schema), batch(0, mode="complete"))
    real, seen = SinkTable.move, []

    def look(self, *arguments):
        real(self, *arguments)
        seen.extend(postgres.ask(f"SELECT * FROM {sink.table}"))

    monkeypatch.setattr(SinkTable, "move", look)
    sink_writer.write(spark.createDataFrame([(2,), (3,)], schema), batch(1, mode="complete"))

    assert seen == [(1,)]
    assert postgres.ask(f"SELECT * FROM {sink.table} ORDER BY id") == [(2,), (3,)]


def test_what_does_not_fit_is_named_in_the_database_s_words(spark, postgres, refusal):
    table = fresh()
    postgres.ask(f"CREATE TABLE {table} (id bigint, a numeric(5,2), b varchar(3), UNIQUE (id, b))")
    postgres.ask(f"CREATE UNIQUE INDEX ON {table} (id) WHERE b IS NULL")
    said = refusal(sink_of(postgres, table=table).open, spark, spark.sql("SELECT 1D AS id, 1L AS a").schema, "append")

    assert said.startswith(
        f"the rows do not match table {table} in jdbc:postgresql://127.0.0.1:{postgres.port}/postgres: "
    )
    assert "missing in the rows: b varchar; id is double in the rows and int8 in the table" in said
    assert "a is bigint in the rows and numeric(5,2) in the table" in said

    rows = spark.sql("SELECT 1L AS id, 1.5BD AS a, 'x' AS b").schema
    keyed = refusal(sink_of(postgres, table=table, key=("id",)).open, spark, rows, "update")
    assert "has no primary key or unique index on (id), only on (b, id); add one, or correct 'key'" in keyed
    sink_of(postgres, table=table, key=("b", "id")).open(spark, rows, "update")


def test_a_wrong_password_and_a_closed_port_are_said_without_the_password(spark, postgres):
    schema = spark.sql("SELECT 1 AS id").schema
    with pytest.raises(UnreachableError, match="password authentication failed") as caught:
        sink_of(postgres, password="a-wrong-one").open(spark, schema, "append")
    assert "a-wrong-one" not in str(caught.value)

    from penstock.services.kafka import free_port

    said: list[str] = []
    with pytest.raises(UnreachableError, match=r"no PostgreSQL answers at 127\.0\.0\.1:\d+ after 0 s"):
        probe(JdbcSink(url=f"jdbc:postgresql://127.0.0.1:{free_port()}/x", table="t"), 0, said.append)
    probe(sink_of(postgres), 0, said.append)


PIPELINE = """
name: shop
sources:
  orders: {{files: {{path: in, format: json, schema: "id int, who string, n int", files_per_trigger: 1}}}}
sinks:
  {name}:
    from: orders
    to:
      - jdbc: {{url: "{url}", user: tests, password: "{password}", table: {rows}, create: true}}
        name: all
      - jdbc:
          {{url: "{url}", user: tests, password: "{password}", table: {last}, create: true, key: [who], latest_by: id}}
        name: last
      - delta: {{path: lake}}
"""


def test_a_pipeline_that_fails_inside_a_batch_writes_everything_once(project, postgres):
    from deltalake import DeltaTable

    for number in range(4):
        lines = [{"id": number * 10 + each, "who": "ab"[each % 2], "n": each} for each in range(2)]
        project.put(f"in/{number}.json", "\n".join(map(json.dumps, lines)), at=number + 1)
    rows, last = fresh(), fresh()
    text = PIPELINE.format(name=fresh(), url=postgres.url, password=PASSWORD, rows=rows, last=last)
    # A batch each: the targets that did not fail have it.
    for number, (which, moment) in enumerate((("all", "written"), ("last", "before"), ("delta", "written")), 1):
        pipeline = with_hook(project.load(text), which, FailOnce(batch=number, moment=moment))
        with pytest.raises(PenstockError, match="a crash"):
            project.run_once(pipeline)
    project.run(text)

    everything = [0, 1, 10, 11, 20, 21, 30, 31]
    assert [row[0] for row in postgres.ask(f"SELECT id FROM {rows} ORDER BY id")] == everything
    assert postgres.ask(f"SELECT who, id FROM {last} ORDER BY who") == [("a", 30), ("b", 31)]
    lake = DeltaTable(project.folder / "lake").to_pyarrow_table()
    assert sorted(lake.column("id").to_pylist()) == everything


def test_a_static_side_is_read_from_a_table_in_parts_and_from_a_query(spark, postgres):
    table = fresh()
    postgres.ask(f'CREATE TABLE {table} ("Id" bigint, name text)')
    postgres.ask(f"INSERT INTO {table} SELECT n, 'n' || n FROM generate_series(1, 100) AS n")
    who = {"url": postgres.url, "user": "tests", "password": PASSWORD}

    cut = {"partition_column": "Id", "lower_bound": 1, "upper_bound": 100, "partitions": 3}
    parts = JdbcSource(**who, table=table, **cut).read_static(spark)
    query = JdbcSource(**who, query=f'SELECT count(*) AS n FROM {table} WHERE "Id" > 50;').read_static(spark)

    assert (parts.rdd.getNumPartitions(), parts.count()) == (3, 100)
    assert [row.n for row in query.collect()] == [50]
