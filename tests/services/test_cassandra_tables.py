"""Static tables of a real Cassandra: scanned and looked up."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from uuid import UUID

import pytest
from pyspark.sql import functions as F  # noqa: N812

from penstock.connector import LookupRequest
from penstock.connectors.cassandra import CassandraSource
from penstock.engine.static_tables import LoadedTable
from penstock.model import Location, Source
from penstock.testing.connectors import SourceSuite


@pytest.fixture
def users(cassandra):
    """A table of three users."""
    cassandra.make("id text PRIMARY KEY, name text, age int")
    for row in (("a", "Ann", 1), ("b", "Bob", 2), ("c", None, None)):
        cassandra.cql("INSERT INTO t (id, name, age) VALUES (%s, %s, %s)", *row)
    return CassandraSource(hosts=cassandra.address, table=f"{cassandra.keyspace}.t")


def rows(frame) -> list[tuple]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def test_a_static_table_has_the_declared_columns_and_is_read_again_when_it_is_due(cassandra, users, spark):
    users = users.model_copy(update={"schema_": "id string, age int"})
    table = users.read_static(spark).persist()
    static = LoadedTable(Source("users", Location("f"), users, static="10 minutes"), table, now=0.0)
    assert rows(table) == [("a", 1), ("b", 2), ("c", None)]

    cassandra.cql("DELETE FROM t WHERE id = 'a'")
    assert rows(table) == [("a", 1), ("b", 2), ("c", None)], "kept"
    assert (static.is_due(599.0), static.is_due(600.0)) == (False, True)
    static.refresh(600.0)

    assert rows(table) == [("b", 2), ("c", None)]


def test_declared_columns_that_the_table_does_not_have_are_all_named(users, spark, refusal):
    users = users.model_copy(update={"schema_": "id string, nam string, age bigint"})

    assert refusal(users.read_static, spark).splitlines()[1:] == [
        "  'nam' is not a column of the table; did you mean 'name'?",
        "  'age' is declared bigint, and the table has int; declare it int",
    ]


def test_a_lookup_is_the_join_that_it_stands_for(users, spark):
    stream = spark.createDataFrame([("a", 1), ("b", 2), ("zz", 3), (None, 4), ("a", 5)], "id string, n int")
    whole = users.read_static(spark)

    for kind in ("left", "inner"):
        found = users.look_up(stream, LookupRequest({"id": "id"}, {}, kind))
        assert found.columns == ["id", "n", "age", "name"]
        joined = stream.join(whole, "id", kind).select(*found.columns)
        assert rows(found) == rows(joined)


def test_a_lookup_by_part_of_the_key_gives_every_row_of_it_under_new_names(cassandra, spark):
    cassandra.make("id text, at int, v text, PRIMARY KEY (id, at)")
    for row in (("a", 1, "x"), ("a", 2, "y"), ("b", 1, "z")):
        cassandra.cql("INSERT INTO t (id, at, v) VALUES (%s, %s, %s)", *row)
    table = CassandraSource(hosts=cassandra.address, table=f"{cassandra.keyspace}.t")
    stream = spark.createDataFrame([("a", 2)], "who string, at int")

    assert rows(table.look_up(stream, LookupRequest({"who": "id"}, {"value": "v"}))) == [("a", 2, "x"), ("a", 2, "y")]
    assert rows(table.look_up(stream, LookupRequest({"who": "id", "at": "at"}, {"value": "v"}))) == [("a", 2, "y")]


def test_every_type_is_looked_up_as_a_scan_reads_it(cassandra, spark):
    cassandra.make(
        "id uuid PRIMARY KEY, b boolean, bin blob, d date, dec decimal, f float, i inet, l list<int>, "
        "m map<text, timestamp>, s set<text>, t time, ti tinyint, ts timestamp, v varint"
    )
    one = UUID("7d3b7f9e-4a0c-4b5e-9a44-0d4e7b1b7a01")
    moment = datetime(2020, 1, 2, 3, 4, 5)
    values = (True, b"\x01", date(2020, 1, 2), Decimal("1.25"), 1.5, "127.0.0.1", [1, 2], {"k": moment}, {"x"})
    names = "b, bin, d, dec, f, i, l, m, s, t, ti, ts, v"
    places = ", ".join(["%s"] * 14)
    cassandra.cql(f"INSERT INTO t (id, {names}) VALUES ({places})", one, *values, "10:00:00", 7, moment, 10**20)
    table = CassandraSource(hosts=cassandra.address, table=f"{cassandra.keyspace}.t")
    scanned = table.read_static(spark)

    keys = spark.createDataFrame([(str(one),), ("no uuid",)], "id string")
    found = table.look_up(keys, LookupRequest({"id": "id"}, {}, "inner"))

    assert found.select(sorted(found.columns)).schema.simpleString() == (
        scanned.select(sorted(scanned.columns)).schema.simpleString()
    )
    assert rows(found.select(sorted(found.columns))) == rows(scanned.select(sorted(scanned.columns)))


def test_an_answer_is_used_again_until_its_time_is_over(cassandra, users, spark):
    lookup = LookupRequest({"id": "id"}, {"name": "name"}, "left", cache_seconds=3600)
    # One partition: the cache is that of one worker.
    found = users.look_up(spark.createDataFrame([("b",)], "id string").coalesce(1), lookup)
    asked = users.look_up(
        spark.createDataFrame([("b",)], "id string").coalesce(1), LookupRequest({"id": "id"}, {"name": "name"})
    )
    assert rows(found) == rows(asked) == [("b", "Bob")]

    cassandra.cql("UPDATE t SET name = 'Rob' WHERE id = 'b'")

    assert rows(found) == [("b", "Bob")]
    assert rows(asked) == [("b", "Rob")]


def test_columns_and_keys_that_cannot_be_looked_up_are_named(cassandra, users, spark, refusal):
    stream = spark.createDataFrame([("a", 1)], "id string, n int")

    def look(on: dict[str, str], columns: dict[str, str] | None = None) -> str:
        return refusal(users.look_up, stream, LookupRequest(on, columns or {})).replace(f"{cassandra.keyspace}.t", "t")

    assert look({"n": "age"}) == (
        "'on' is age, and rows of t are found by (id); use its partition key (id), then more of the key from the left"
    )
    assert look({"n": "id"}) == "'n' is int, and 'id' of t is text; write CAST(n AS string) AS n"
    assert look({"id": "id"}, {"nam": "nam"}) == "table t has no column 'nam' to add; did you mean 'name'?"


def test_logins_of_a_stream_get_the_names_of_their_users_and_keep_their_watermark(cassandra, users, project):
    lines = (
        f'{{"id": "{who}", "at": "2020-01-01T10:{minute:02}:00Z"}}' for who, minute in (("a", 1), ("b", 2), ("a", 59))
    )
    project.put("in/1.json", "\n".join(lines))

    project.run(f"""
        sources:
          logins:
            files: {{path: in, format: json, schema: "id string, at timestamp"}}
            watermark: {{column: at, delay: 10 minutes}}
          users: {{cassandra: {{hosts: "{cassandra.address}", table: {users.table}}}, static: true}}
        steps:
          named: {{lookup: {{from: logins, in: users, on: id, columns: name, cache: 1 minute}}}}
          by_name: |
            SELECT name, window.start, count(*) AS n FROM named GROUP BY name, window(at, '10 minutes')
        sinks:
          by_name_out: {{from: by_name, memory: {{}}}}
    """)

    # The last window is still open: the watermark came through the lookup.
    start = datetime(2020, 1, 1, 10)
    found = project.spark.table("by_name_out").select("name", F.col("start").cast("string"), "n")
    assert rows(found) == [("Ann", str(start), 1), ("Bob", str(start), 1)]


def test_scan_joins_and_lookups_give_the_same_in_a_pipeline(cassandra, users, project):
    project.put("in/1.json", '{"id": "a"}\n{"id": "zz"}\n')

    project.run(f"""
        sources:
          logins: {{files: {{path: in, format: json, schema: id string}}}}
          users: {{cassandra: {{hosts: "{cassandra.address}", table: {users.table}}}, static: {{refresh: 10 minutes}}}}
        steps:
          scanned: SELECT logins.id, name FROM logins LEFT JOIN users ON logins.id = users.id
          looked_up: {{lookup: {{from: logins, in: users, on: [id], columns: [name]}}}}
        sinks:
          scanned_out: {{from: scanned, memory: {{}}}}
          looked_up_out: {{from: looked_up, memory: {{}}}}
    """)

    assert project.rows("scanned_out") == project.rows("looked_up_out") == [("a", "Ann"), ("zz", None)]


def test_workers_keep_their_sessions_across_batches(cassandra, users, spark):
    stream = spark.range(20).select(F.col("id").cast("string").alias("id"))
    found = users.look_up(stream, LookupRequest({"id": "id"}, {"name": "name"}))

    def connections() -> int:
        drivers = (name for (name,) in cassandra.cql("SELECT driver_name FROM system_views.clients"))
        return sum("Python" in (name or "") for name in drivers)

    rows(found)
    before = connections()
    for _ in range(8):
        rows(found)

    # A session has two connections: a new one for each of these tasks would make 32.
    assert connections() - before <= 4


class TestCassandra(SourceSuite):
    @pytest.fixture(autouse=True)
    def _users(self, users):
        self.users = users

    def source(self, place):  # noqa: ARG002
        return self.users


class TestDeclaredCassandra(TestCassandra):
    def source(self, place):  # noqa: ARG002
        options = {"hosts": self.users.hosts, "table": self.users.table, "schema": "id string, age int"}
        return CassandraSource.model_validate(options)
