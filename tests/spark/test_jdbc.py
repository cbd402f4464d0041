"""Databases through JDBC: SQLite, judged by Python's own sqlite3, and Derby for what is common to all of SQL."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest
from pydantic import ValidationError

from penstock.checks import check
from penstock.connectors.jdbc import JdbcSink, JdbcSource
from penstock.connectors.jdbc._connection import Connection, TableName
from penstock.connectors.jdbc._tables import SinkTable
from penstock.errors import BuildError, PenstockError, RunError, UnreachableError
from penstock.load import load
from penstock.testing.connectors import SinkSuite, batch


def ask(file: Path, text: str) -> list[tuple]:
    with closing(sqlite3.connect(file)) as connection, connection:
        return connection.execute(text).fetchall()


def sqlite(file: Path, **options) -> JdbcSink:
    return JdbcSink(url=f"jdbc:sqlite:{file}", table="rows", **options)


class TestSQLite(SinkSuite):
    def sink(self, place):
        return sqlite(place / "shop.db", create=True)

    def keyed(self, place):
        return sqlite(place / "shop.db", create=True, key=("id",))

    def written(self, sink):
        return ask(Path(sink.url.removeprefix("jdbc:sqlite:")), "SELECT id, name, amount FROM rows")


class TestDerby(SinkSuite):
    """A database that Penstock knows nothing about."""

    def sink(self, place):
        return JdbcSink(url=f"jdbc:derby:{place / 'derby'};create=true", table="app.items")

    def keyed(self, place):
        """Replacing rows is not supported here."""
        return self.sink(place).model_copy(update={"key": ("id",)})

    @pytest.fixture(autouse=True)
    def table(self, spark, tmp_path):
        self._spark = spark
        with self.sink(tmp_path).connect(spark._jvm) as connection:
            connection.execute("CREATE TABLE items (id INT, name VARCHAR(100), amount DOUBLE)")

    def written(self, sink):
        read = JdbcSource(url=sink.url, table="app.items").read_static(self._spark)
        return [tuple(row) for row in read.collect()]

    def test_mode_update_replaces_the_row_of_a_key(self, spark, tmp_path):
        with pytest.raises(BuildError, match="replacing rows by 'key' is supported for PostgreSQL and SQLite, not for"):
            self._open(self.keyed(tmp_path), spark, "update")


def test_every_type_arrives_as_one_would_expect(spark, tmp_path):
    file = tmp_path / "types.db"
    rows = spark.sql("""
        SELECT 1Y AS a, 2S AS b, 3 AS c, 4L AS d, CAST(0.5 AS FLOAT) AS e, 0.25D AS f, CAST(1.10 AS DECIMAL(10,2)) AS g,
               true AS h, DATE'2024-02-29' AS i, TIMESTAMP'2024-02-29 12:00:00.123456' AS j, X'00FF' AS k, 'ü' AS l,
               TIMESTAMP_NTZ'2024-02-29 12:00:00' AS m, CAST(NULL AS TIMESTAMP) AS n
    """)
    sink = sqlite(file, create=True)
    sink_writer = sink.open(spark, rows.schema, "append")
    sink_writer.write(rows, batch(0))

    (found,) = ask(file, "SELECT * FROM rows")
    assert found == (
        *(1, 2, 3, 4, 0.5, 0.25, 1.1, 1, "2024-02-29", "2024-02-29 12:00:00.123456", b"\x00\xff", "ü"),
        *("2024-02-29 12:00:00.000000", None),
    )


def test_names_and_values_cannot_become_sql(spark, tmp_path):
    file = tmp_path / "o'brien.db"
    evil = 'x"; DROP TABLE rows; --'
    rows = spark.createDataFrame([(evil, 1)], [evil, "se'lect; --"])
    sink = JdbcSink(
        url=f"jdbc:sqlite:{file}", table=f'"{evil.replace(chr(34), chr(34) * 2)}"', create=True, key=(evil,)
    )
    sink_writer = sink.open(spark, rows.schema, "append")
    writer = batch(0)
    sink_writer.write(rows, writer)
    sink_writer.write(rows, batch(1))

    name = evil.replace('"', '""')
    assert ask(file, f'SELECT * FROM "{name}"') == [(evil, 1)]
    assert ask(file, "SELECT * FROM penstock_batches") == [(writer.writer, writer.query, 1)]
    assert ask(file, "SELECT count(*) FROM sqlite_master WHERE type = 'table'") == [(2,)]


def test_the_rows_and_the_number_are_one_transaction(spark, tmp_path, monkeypatch):
    """A failure after the rows are moved, and before the commit, leaves neither."""
    file, rows = tmp_path / "t.db", spark.createDataFrame([(1,)], "id int")
    sink = sqlite(file, create=True, isolation="serializable")
    sink_writer = sink.open(spark, rows.schema, "append")
    real = SinkTable.move

    def fails(self, *arguments):
        real(self, *arguments)
        raise OSError("a crash before the commit")

    monkeypatch.setattr(SinkTable, "move", fails)
    with pytest.raises(OSError, match="a crash"):
        sink_writer.write(rows, batch(0))
    assert (ask(file, "SELECT * FROM rows"), ask(file, "SELECT * FROM penstock_batches")) == ([], [])

    monkeypatch.setattr(SinkTable, "move", real)
    sink_writer.write(rows, batch(0))
    assert ask(file, "SELECT * FROM rows") == [(1,)]


def test_rows_of_a_task_that_was_run_twice_are_noticed(spark, tmp_path, monkeypatch):
    file, rows = tmp_path / "t.db", spark.createDataFrame([(1,)], "id int")
    real = SinkTable.move

    def with_another(self, staged, *arguments):
        q = self.connection.quote
        self.connection.execute(f"INSERT INTO {q(staged.table)} SELECT * FROM {q(staged.table)}")
        real(self, staged, *arguments)

    monkeypatch.setattr(SinkTable, "move", with_another)
    for key in ((), ("id",)):
        sink = JdbcSink(url=f"jdbc:sqlite:{file}", table=f"rows{len(key)}", create=True, key=key)
        sink_writer = sink.open(spark, rows.schema, "append")
        with pytest.raises(RunError, match="1 rows of batch 0 were sent twice") as caught:
            sink_writer.write(rows, batch(0))
        assert caught.value.retry
        assert ask(file, f"SELECT * FROM {sink.table}") == []


def test_another_run_that_still_lives_fails_when_it_comes_to_move_its_rows(spark, tmp_path, monkeypatch):
    """A new run writes the same batch while the old one is between staging and moving its rows."""
    file, rows = tmp_path / "t.db", spark.createDataFrame([(1,)], "id int")
    old, new = sqlite(file, create=True), sqlite(file, create=True)
    old_writer, new_writer = (sink.open(spark, rows.schema, "append") for sink in (old, new))
    real, once = Connection.transaction, []

    def overtaken(self, *arguments):
        if not once:
            once.append(self)
            new_writer.write(rows, batch(0))
        return real(self, *arguments)

    monkeypatch.setattr(Connection, "transaction", overtaken)
    with pytest.raises(PenstockError):
        old_writer.write(rows, batch(0))

    assert ask(file, "SELECT * FROM rows") == [(1,)]
    assert ask(file, "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY 1") == [
        ("penstock_batches",),
        ("rows",),
    ]


def test_of_rows_of_one_key_the_latest_stays(spark, tmp_path):
    file = tmp_path / "t.db"
    sink = sqlite(file, create=True, key=("id",), latest_by="at")
    schema = spark.createDataFrame([], "id int, at int, name string").schema
    sink_writer = sink.open(spark, schema, "update")

    sink_writer.write(spark.createDataFrame([(1, 5, "late"), (1, 3, "early")], schema), batch(0, mode="update"))
    sink_writer.write(spark.createDataFrame([(1, 4, "older"), (2, 1, "some")], schema), batch(1, mode="update"))

    assert ask(file, "SELECT * FROM rows ORDER BY id") == [(1, 5, "late"), (2, 1, "some")]
    with pytest.raises(Exception, match=r'a row has no value in its key \{"id":null\}'):
        sink_writer.write(spark.createDataFrame([(None, 4, "nobody")], schema), batch(2, mode="update"))


def test_what_does_not_fit_is_said_at_once(spark, tmp_path, refusal):
    file = tmp_path / "t.db"
    ask(file, "CREATE TABLE rows (id INTEGER PRIMARY KEY, a TEXT NOT NULL, b TEXT, c REAL, d TEXT DEFAULT 'x')")
    rows = spark.createDataFrame([], "id bigint, c string, e map<string,int>").schema

    fix = "change what the sink reads (to_json converts anything to text), or the table"
    assert refusal(sqlite(file).open, spark, rows, "append") == (
        f"the rows do not match table rows in jdbc:sqlite:{file}: missing in the rows: a text, b text; "
        "not in the table: e map<string,int>; c is string in the rows and real in the table; "
        f"{fix}, or set 'schema: ignore' to leave other columns out"
    )
    assert refusal(sqlite(file, schema="ignore").open, spark, rows, "append") == (
        f"the rows do not match table rows in jdbc:sqlite:{file}: missing in the rows: a text; "
        f"c is string in the rows and real in the table; {fix}"
    )
    fine = spark.createDataFrame([], "id int, a string, b string, c double").schema
    assert refusal(sqlite(file, key=("a",)).open, spark, fine, "update") == (
        f"table rows in jdbc:sqlite:{file} has no primary key or unique index on (a), only on (id); "
        "add one, or correct 'key'"
    )
    assert refusal(sqlite(tmp_path / "none.db").open, spark, fine, "append") == (
        f"there is no table rows in jdbc:sqlite:{tmp_path}/none.db; create it, correct 'table', or set 'create: true'"
    )
    assert refusal(sqlite(tmp_path / "new.db", create=True).open, spark, rows, "append") == (
        "SQLite has no type for e map<string,int>; convert it to text with to_json in what the sink reads"
    )


def test_columns_are_left_out_both_ways_when_that_is_asked_for(spark, tmp_path):
    file = tmp_path / "t.db"
    ask(file, "CREATE TABLE rows (id INTEGER PRIMARY KEY, name TEXT)")
    sink, rows = sqlite(file, schema="ignore"), spark.createDataFrame([(1, 2.5)], "ID int, extra double")
    sink_writer = sink.open(spark, rows.schema, "append")
    sink_writer.write(rows, batch(0))

    assert ask(file, "SELECT * FROM rows") == [(1, None)]


def test_a_database_that_cannot_be_opened_is_named_without_its_password(spark, tmp_path):
    sink = JdbcSink(url=f"jdbc:sqlite:{tmp_path}/no/such/folder/t.db?password=hunter2", table="t", password="hunter2")

    with pytest.raises(UnreachableError, match="cannot be opened") as caught:
        sink.open(spark, spark.createDataFrame([], "id int").schema, "append")
    assert "hunter2" not in f"{caught.value} {sink!r}"
    assert caught.value.retry


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"url": "postgresql://x", "table": "t"}, "does not begin with 'jdbc:'"),
        ({"url": "jdbc:sqlite::memory:", "table": "t"}, "ends with its connection"),
        ({"url": "jdbc:sqlite:t.db", "table": "a.b.c"}, "is not a table"),
        ({"url": "jdbc:sqlite:t.db", "table": "t", "latest_by": "at"}, "'latest_by' needs 'key'"),
    ],
)
def test_options_that_cannot_work_are_refused(options, says):
    with pytest.raises(ValidationError, match=says):
        JdbcSink(**options)


def test_names_of_tables_are_taken_apart():
    assert TableName.parse("market.totals") == TableName("market", "totals")
    assert TableName.parse('"my.schema"."a""b"') == TableName("my.schema", 'a"b')


STATIC = """
sources:
  logins: {{files: {{path: logins, format: json, schema: who string}}}}
  users: {{jdbc: {{url: "jdbc:sqlite:users.db", {options}}}, static: {static}}}
steps:
  named: SELECT who, city FROM logins JOIN users USING (who)
sinks:
  {name}: {{from: named, files: {{path: out, format: json}}}}
"""


@pytest.mark.parametrize(
    ("name", "options", "static"),
    [
        ("by_time", "table: users", "{refresh: 1 second}"),
        (
            "by_version",
            'query: "SELECT * FROM users;", version_query: SELECT max(rowid) FROM users',
            "{refresh: on change}",
        ),
    ],
)
def test_a_static_table_is_really_read_again(project, name, options, static):
    from penstock.engine import start

    file = project.folder / "users.db"
    ask(file, "CREATE TABLE users (who TEXT, city TEXT)")
    ask(file, "INSERT INTO users VALUES ('ann', 'Rome')")
    project.put("logins/1.json", '{"who": "ann"}', at=1)
    refreshed = threading.Event()
    pipeline = project.load(STATIC.format(name=name, options=options, static=static))
    queries = start(pipeline, project.spark, emit=lambda _what, **_facts: refreshed.set())
    try:
        next(iter(queries)).processAllAvailable()
        ask(file, "DELETE FROM users")
        ask(file, "INSERT INTO users (rowid, who, city) VALUES (9, 'ann', 'Paris')")
        refreshed.clear()
        assert refreshed.wait(30), "the table was not read again"
        project.put("logins/2.json", '{"who": "ann"}', at=2)
        next(iter(queries)).processAllAvailable()
    finally:
        queries.stop()

    assert project.written("out", "json", "who string, city string") == [("ann", "Paris"), ("ann", "Rome")]


def test_a_table_that_cannot_be_looked_at_is_told_of_and_looked_at_again(project):
    from penstock.engine import start

    file = project.folder / "users.db"
    ask(file, "CREATE TABLE users (who TEXT, city TEXT)")
    project.put("logins/1.json", '{"who": "ann"}', at=1)
    told: list[tuple[str, dict]] = []
    seen = {"stale": threading.Event(), "refreshed": threading.Event()}

    def tell(what, **facts):
        told.append((what, facts))
        seen[what].set()

    options = "table: users, version_query: SELECT count(*) FROM users"
    queries = start(
        project.load(STATIC.format(name="looked_at", options=options, static="{refresh: on change}")),
        project.spark,
        emit=tell,
    )
    try:
        next(iter(queries)).processAllAvailable()
        ask(file, "ALTER TABLE users RENAME TO away")
        assert seen["stale"].wait(30)
        ask(file, "ALTER TABLE away RENAME TO users")
        ask(file, "INSERT INTO users VALUES ('ann', 'Rome')")
        assert seen["refreshed"].wait(30)
    finally:
        queries.stop()

    assert [what for what, _ in told] == ["stale", "refreshed"]
    assert "no such table: users" in told[0][1]["reason"]


def test_a_table_is_read_in_parts_and_with_whole_numbers_of_eight_bytes(spark, tmp_path):
    file = tmp_path / "t.db"
    ask(file, "CREATE TABLE big (id INTEGER, x REAL)")
    ask(file, f"INSERT INTO big VALUES (1, 0.1), ({2**40}, 0.2)")
    cut = {"partition_column": "id", "lower_bound": 0, "upper_bound": 100, "partitions": 2}
    read = JdbcSource(url=f"jdbc:sqlite:{file}", table="big", fetch_size=1, **cut).read_static(spark)

    assert read.rdd.getNumPartitions() == 2
    assert sorted(tuple(row) for row in read.collect()) == [(1, 0.1), (2**40, 0.2)]


def test_what_a_static_side_cannot_do_is_found_by_check(tmp_path):
    text = """
sources:
  a: {jdbc: {url: "jdbc:sqlite:a.db", table: t}}
  b: {jdbc: {url: "jdbc:sqlite:a.db", table: t}, static: {refresh: on change}}
  c: {rate: {}}
steps: {d: "SELECT * FROM c JOIN b"}
sinks:
  out: {from: d, jdbc: {url: "jdbc:sqlite:a.db", table: t}, mode: update}
  more: {from: a, console: {}}
"""
    (tmp_path / "p.yaml").write_text(text)

    said = [str(finding).removeprefix(f"{tmp_path}/") for finding in check(load(tmp_path / "p.yaml"))]

    assert said == [
        "p.yaml:3:3: source 'a': jdbc can only be read as a static table; add 'static: true'",
        "p.yaml:4:50: source 'b': jdbc cannot detect changes of the table; "
        "set 'version_query', or refresh it at an interval, like '10 minutes'",
        "p.yaml:8:18: sink 'out': mode update replaces rows, and a jdbc sink finds them by 'key'; add 'key: [...]'",
    ]
