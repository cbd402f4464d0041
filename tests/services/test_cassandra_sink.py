"""The cassandra sink against a real Cassandra."""

from __future__ import annotations

import shutil
from datetime import date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from penstock.connector import Batch
from penstock.connectors.cassandra import CassandraSink
from penstock.engine.prepare import probe
from penstock.errors import PenstockError
from penstock.testing.connectors import SinkSuite


@pytest.fixture
def write(cassandra, spark):
    """Writes batches of rows to the table `t` with the sink's options."""

    def write(schema: str, *batches: list[tuple[Any, ...]], **options: Any) -> CassandraSink:
        sink = CassandraSink(hosts=cassandra.address, table=f"{cassandra.keyspace}.t", **options)
        sink_writer = sink.open(spark, spark.createDataFrame([], schema).schema, "append")
        for number, rows in enumerate(batches):
            sink_writer.write(spark.createDataFrame(rows, schema), Batch(number, "query", "test.sink.cassandra"))
        return sink

    return write


@pytest.fixture
def misfit(cassandra, spark):
    """What `fit` says about rows of a schema."""

    def misfit(schema: str, **options: Any) -> list[str]:
        sink = CassandraSink(hosts=cassandra.address, table=f"{cassandra.keyspace}.t", **options)
        with pytest.raises(PenstockError) as caught:
            sink.open(spark, spark.createDataFrame([], schema).schema, "append")
        return str(caught.value).splitlines()

    return misfit


def test_a_row_replaces_the_one_of_its_key_and_leaves_other_columns_alone(cassandra, write):
    cassandra.make("id text PRIMARY KEY, n int, other text")
    cassandra.cql("INSERT INTO t (id, n, other) VALUES ('a', 0, 'stays')")

    write("id string, n int", [("a", 1), ("b", 2)], [("b", 3)])

    assert cassandra.cql("SELECT id, n, other FROM t ") == [("a", 1, "stays"), ("b", 3, None)]


def test_a_null_empties_its_column_unless_it_is_to_be_kept(cassandra, write):
    cassandra.make("id text PRIMARY KEY, n int, s text")
    write("id string, n int, s string", [("a", 1, "x")])

    write("id string, n int, s string", [("a", 2, None)], nulls="keep")
    assert cassandra.cql("SELECT * FROM t ") == [("a", 2, "x")]

    write("id string, n int, s string", [("a", 3, None)])
    assert cassandra.cql("SELECT * FROM t ") == [("a", 3, None)]


def test_rows_that_keep_nulls_are_merged_within_a_batch(cassandra, write):
    cassandra.make("id text PRIMARY KEY, n int, s text")

    write("id string, n int, s string", [("a", 1, None), ("a", None, "x")], nulls="keep")

    assert cassandra.cql("SELECT * FROM t ") == [("a", 1, "x")]


def test_of_several_rows_of_one_key_in_a_batch_the_greatest_is_written_in_any_order(cassandra, write):
    cassandra.make("id text PRIMARY KEY, n int, m map<text, int>")
    rows = [("a", 1, {"z": 1}), ("a", 3, {"y": 1}), ("a", 2, {"x": 1})]

    write("id string, n int, m map<string, int>", rows, rows[::-1], rows[1:] + rows[:1])

    assert cassandra.cql("SELECT id, n FROM t ") == [("a", 3)]
    assert len(set(cassandra.cql("SELECT writetime(n), id FROM t "))) == 1


def test_with_a_timestamp_an_old_batch_never_overwrites_newer_data(cassandra, write):
    #  time     10:00  10:05  10:10
    #  arrives  second third  first     10:10 stays, whatever comes after it
    cassandra.make("id text PRIMARY KEY, n int, at timestamp")
    ten, five_past, ten_past = (datetime(2020, 1, 1, 10, minute) for minute in (0, 5, 10))
    batches = [[("a", 3, ten_past)], [("a", 1, ten), ("b", 1, ten)], [("a", 2, five_past)]]

    write("id string, n int, at timestamp", *batches, timestamp="at")
    before = cassandra.cql("SELECT id, n, writetime(n) FROM t ")
    write("id string, n int, at timestamp", *reversed(batches), timestamp="at")

    assert before == [("a", 3, 1577873400000000), ("b", 1, 1577872800000000)]
    assert cassandra.cql("SELECT id, n, writetime(n) FROM t ") == before


def test_equal_timestamps_give_the_same_row_in_any_order(cassandra, write):
    cassandra.make("id text PRIMARY KEY, n int")
    same = datetime(2020, 1, 1)

    write("id string, n int, at timestamp", [("a", 1, same), ("a", 7, same)], [("a", 5, same)], timestamp="at")

    # The column of the times is not in the table: only the writes have them.
    assert cassandra.cql("SELECT id, n, writetime(n) FROM t ") == [("a", 7, 1577836800000000)]


def test_a_row_without_a_time_fails_the_batch_with_its_column(cassandra, write):
    cassandra.make("id text PRIMARY KEY, n int")

    with pytest.raises(Exception, match="a row has no 'at', its write time"):
        write("id string, n int, at timestamp", [("a", 1, None)], timestamp="at")


def test_a_row_lives_as_long_as_its_ttl(cassandra, write):
    cassandra.make("id text PRIMARY KEY, n int")

    write("id string, n int", [("a", 1)], ttl="2 hours")

    ((ttl,),) = cassandra.cql("SELECT ttl(n) FROM t ")
    assert 7000 < ttl <= 7200


def test_a_flagged_row_is_deleted_and_the_flag_is_not_written(cassandra, write):
    cassandra.make("id uuid, at timestamp, n int, PRIMARY KEY (id, at)")
    one, at, later = "7d3b7f9e-4a0c-4b5e-9a44-0d4e7b1b7a01", datetime(2020, 1, 1), datetime(2020, 1, 2)
    schema = "id string, at timestamp, n int, gone boolean"

    write(
        schema,
        [(one, at, 1, None), (one, later, 2, False)],
        [(one, at, 1, True), (one, later, 3, False)],
        delete_when="gone",
    )

    assert cassandra.cql("SELECT id, at, n FROM t ") == [(UUID(one), later, 3)]


def test_of_a_row_and_its_deletion_in_one_batch_the_deletion_wins(cassandra, write):
    cassandra.make("id text PRIMARY KEY, n int")

    write("id string, n int, gone boolean", [("a", 9, False), ("a", 1, True)], delete_when="gone")

    assert cassandra.cql("SELECT * FROM t ") == []


def test_with_a_timestamp_a_delete_removes_only_what_is_older(cassandra, write):
    cassandra.make("id text PRIMARY KEY, n int")
    first, second, third = (datetime(2020, 1, day) for day in (1, 2, 3))
    schema = "id string, n int, at timestamp, gone boolean"

    write(
        schema,
        [("a", 2, second, True), ("a", 1, first, False), ("b", 1, third, False)],
        timestamp="at",
        delete_when="gone",
    )
    write(schema, [("b", 0, second, True)], timestamp="at", delete_when="gone")

    assert cassandra.cql("SELECT * FROM t ") == [("b", 1)]


def test_a_table_is_made_with_its_key_and_every_type_comes_back(cassandra, write, spark):
    schema = (
        "id string, at timestamp, t tinyint, s smallint, i int, l bigint, f float, d double, dec decimal(10,2), "
        "b boolean, bin binary, day date, Words array<string>, m map<string, int>"
    )
    at = datetime(2020, 1, 2, 3, 4, 5, 678000)
    row = ("a", at, 1, 2, 3, 4, 1.5, 2.5, Decimal("1.25"), True, b"\x01", date(2020, 1, 2), ["x"], {"k": 1})

    write(schema, [row], [row], create={"key": ["id"], "order": ["at desc"]})

    names = 'id, at, t, s, i, l, f, d, dec, b, bin, day, "Words", m'
    ((*found, words, m),) = cassandra.cql(f"SELECT {names} FROM t ")
    assert [*found[:-1], found[-1].date(), list(words), dict(m)] == list(row)
    cluster = cassandra.session.cluster
    cluster.refresh_table_metadata(cassandra.keyspace, "t")
    table = cluster.metadata.keyspaces[cassandra.keyspace].tables["t"]
    assert ([c.name for c in table.partition_key], [c.name for c in table.clustering_key]) == (["id"], ["at"])


def test_every_column_that_does_not_fit_is_named_with_what_to_do(cassandra, misfit):
    name = cassandra.make("id text, day date, n int, total bigint, PRIMARY KEY (id, day)")

    assert misfit("id string, n bigint, totl bigint, extra string, at timestamp_ntz") == [
        f"table {name} does not match the rows:",
        "  'day' (date) is in the table's key, and the rows do not have it; add it to the SELECT",
        "  'n' is bigint, and the table has int; write CAST(n AS int) AS n",
        "  'totl' is not a column of the table; did you mean 'total'?",
        f"  'extra' is not a column of the table; ALTER TABLE {name} ADD \"extra\" text, or leave it out of the rows",
        "  'at' is not a column of the table; leave it out of the rows",
    ]


def test_a_counter_is_refused_because_a_replay_would_count_twice(cassandra, misfit):
    cassandra.make("id text PRIMARY KEY, n counter")

    says = "  column 'n' is a counter, and a replayed batch would count twice; write totals to a bigint instead"
    assert says in misfit("id string, n bigint")


def test_another_key_than_the_one_to_create_is_refused(cassandra, misfit):
    cassandra.make("id text, at timestamp, PRIMARY KEY (id, at)")

    says = "  its primary key is ((id), at), not that of 'create'; correct 'create', or drop the table"
    assert says in misfit("id string, at timestamp", create={"key": ["id"]})


def test_what_cannot_be_created_is_said_before_anything_is(cassandra, misfit):
    assert misfit("id string, s struct<a: int>", create={"key": ["id"]}) == [
        "Cassandra has no type for column 's' (struct<a:int>); cast it, leave it out, or create the table yourself"
    ]
    assert misfit("word string", create={"key": ["wrd"]}) == ["'create' has 'wrd' in its key; did you mean 'word'?"]
    assert misfit("id string", timestamp="at") == [
        "'timestamp' is 'at', which is not a column of the rows; name a column of type timestamp"
    ]


def test_a_missing_table_or_host_is_named_before_spark_starts(cassandra, refusal):
    cassandra.make("id text PRIMARY KEY", "users")

    def look(table: str, hosts: str = cassandra.address) -> str:
        return refusal(probe, CassandraSink(hosts=hosts, table=table), 0, lambda _: None)

    assert look(f"{cassandra.keyspace}.user") == (
        f"keyspace {cassandra.keyspace!r} has no table 'user'; did you mean 'users'?"
    )
    assert look("nowhere.t") == (
        f"Cassandra at {cassandra.address} has no keyspace 'nowhere'; "
        "create it first, or let 'create: {key: [column]}' do it"
    )
    assert look("a.b", "127.0.0.1:1") == (
        "no Cassandra node answers at 127.0.0.1:1 after 0 s; "
        "start it (penstock dev up cassandra runs one here) or correct 'hosts'"
    )


def test_a_batch_that_is_replayed_after_a_crash_leaves_the_same_totals(cassandra, project):
    project.put("in/1.json", '{"word": "to"}\n{"word": "be"}\n{"word": "to"}\n')
    text = f"""
        sources:
          words: {{files: {{path: in, format: json, schema: word string}}}}
        steps:
          counts: SELECT word, count(*) AS count FROM words GROUP BY word
        sinks:
          board:
            from: counts
            cassandra: {{hosts: "{cassandra.address}", table: {cassandra.keyspace}.t, create: {{key: [word]}}}}
            mode: update
    """
    project.run(text)
    wanted = [("be", 1), ("to", 2)]
    assert cassandra.cql("SELECT * FROM t ") == wanted

    # What a kill after the write leaves: the batch is neither committed nor in the ledger.
    storage = project.folder / ".penstock" / "pipeline"
    (storage / "checkpoints" / "board" / "commits" / "0").unlink()
    (storage / "checkpoints" / "board" / "commits" / ".0.crc").unlink()
    shutil.rmtree(storage / "ledger")
    project.run(text)

    assert cassandra.cql("SELECT * FROM t ") == wanted


def test_a_pipeline_whose_rows_do_not_fit_says_where_in_the_file(cassandra, project, refusal):
    cassandra.make("word text PRIMARY KEY, count int")
    project.put("in/1.json", '{"word": "to"}\n')
    pipeline = project.load(f"""
        sources:
          words: {{files: {{path: in, format: json, schema: word string}}}}
        steps:
          counts: SELECT word, count(*) AS count FROM words GROUP BY word
        sinks:
          board:
            from: counts
            cassandra: {{hosts: "{cassandra.address}", table: {cassandra.keyspace}.t}}
            mode: update
    """)

    says = refusal(project.run_once, pipeline)

    assert says.partition("pipeline.yaml:")[2] == (
        f"7:3: sink 'board': table {cassandra.keyspace}.t does not match the rows:\n"
        "  'count' is bigint, and the table has int; write CAST(count AS int) AS count"
    )


class TestCassandra(SinkSuite):
    @pytest.fixture(autouse=True)
    def _store(self, cassandra):
        self.cassandra = cassandra

    def sink(self, place):  # noqa: ARG002
        table = f"{self.cassandra.keyspace}.t"
        return CassandraSink(hosts=self.cassandra.address, table=table, create={"key": ("id",)})

    def written(self, sink):  # noqa: ARG002
        return self.cassandra.cql("SELECT id, name, amount FROM t ")

    @pytest.mark.parametrize(
        ("schema", "named"),
        [
            ("id int, name string, amount double, more int", "more"),
            ("id int, name string, amount string", "amount"),
            ("id string, name string, amount double", "id"),
            ("name string, amount double", "id"),
        ],
        ids=["extra", "mistyped", "mistyped key", "missing key"],
    )
    def test_columns_that_do_not_match_are_named(self, spark, tmp_path, schema, named):
        """A column that the rows do not have keeps its value, unless it is of the key."""
        super().test_columns_that_do_not_match_are_named(spark, tmp_path, schema, named)
