"""Delta tables, judged by the deltalake package, which is not Spark."""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from deltalake import DeltaTable
from tests.failing_sink import FailOnce, with_hook

from penstock.connectors.delta import DeltaSink, DeltaSource
from penstock.engine.prepare import probe
from penstock.errors import BuildError, PenstockError
from penstock.testing.connectors import SCHEMA, SinkSuite, batch


def rows_of(path: Path | str, version: int | None = None) -> list[tuple]:
    found = DeltaTable(path, version=version).to_pyarrow_table().to_pylist()
    return sorted((tuple(row.values()) for row in found), key=repr)


def files_of(path: Path | str) -> list[str]:
    return sorted(DeltaTable(path).file_uris())


class TestDelta(SinkSuite):
    def sink(self, place):
        return DeltaSink(path=str(place / "table"))

    def keyed(self, place):
        return DeltaSink(path=str(place / "table"), key=("id",))

    def written(self, sink):
        return [(row["id"], row["name"], row["amount"]) for row in DeltaTable(sink.path).to_pyarrow_table().to_pylist()]

    def test_mode_update_replaces_the_row_of_a_key(self, spark, tmp_path):
        super().test_mode_update_replaces_the_row_of_a_key(spark, tmp_path)

        check_that_a_replay_makes_no_commit(spark, self.keyed(tmp_path), "update")

    def test_mode_complete_replaces_everything(self, spark, tmp_path):
        super().test_mode_complete_replaces_everything(spark, tmp_path)

        check_that_a_replay_makes_no_commit(spark, self.sink(tmp_path), "complete")


def check_that_a_replay_makes_no_commit(spark, sink, mode):
    """In the table that the suite has written with two batches, the last of them twice."""
    before = rows_of(sink.path)
    other = spark.createDataFrame([(9, "new", 9.0)], SCHEMA)
    writer = sink.open(spark, other.schema, mode)

    writer.write(other, batch(1, mode=mode))
    writer.write(other, batch(0, mode=mode))

    assert DeltaTable(sink.path).version() == 2
    assert rows_of(sink.path) == before


PIPELINE = """
name: lake
sources:
  trades: {files: {path: in, format: json, schema: "id int, broker string, amount int", files_per_trigger: 1}}
sinks:
  out: {from: trades, delta: {path: lake, partition_by: [broker]}}
"""


@pytest.fixture
def trades(project):
    for number in range(2):
        lines = [{"id": number * 10 + each, "broker": "AB"[each % 2], "amount": each} for each in range(4)]
        project.put(f"in/{number}.json", "\n".join(map(json.dumps, lines)), at=number + 1)
    return project


def test_every_batch_is_one_commit_and_one_file_in_each_partition(trades):
    trades.run(PIPELINE)

    table = DeltaTable(trades.folder / "lake")
    assert [entry["operation"] for entry in table.history()] == ["WRITE"] * 3
    assert table.metadata().partition_columns == ["broker"]
    assert len(files_of(trades.folder / "lake")) == 4
    assert len(rows_of(trades.folder / "lake")) == 8


def test_batches_that_follow_each_other_carry_their_numbers_too(spark, tmp_path):
    rows = spark.createDataFrame([(1, "a")], "id int, name string")
    sink = DeltaSink(path=str(tmp_path / "lake"), options={"userMetadata": "from the till"})
    sink_writer = sink.open(spark, rows.schema, "append")
    for number in range(4):
        sink_writer.write(rows, batch(number))

    table = DeltaTable(sink.path)
    log = sorted(Path(sink.path, "_delta_log").glob("*.json"))
    commits = [json.loads(line) for file in log for line in file.read_text().splitlines()]
    assert [each["txn"]["version"] for each in commits if "txn" in each] == [0, 1, 2, 3]
    assert {entry["userMetadata"] for entry in table.history(3)} == {"from the till"}
    # Replayed by the same driver, then by one that starts anew and repeats what it cannot know.
    other = spark.createDataFrame([(2, "b")], rows.schema)
    sink_writer.write(other, batch(3))
    sink_writer.write(other, batch(2))
    again_writer = DeltaSink(path=sink.path).open(spark, rows.schema, "append")
    again_writer.write(other, batch(3))
    assert DeltaTable(sink.path).version() == table.version()
    again_writer.write(rows, batch(4))
    assert rows_of(sink.path) == [(1, "a")] * 5


def test_of_two_processes_that_commit_the_same_batch_one_is_refused(spark, tmp_path):
    rows = spark.createDataFrame([(1, "a")], "id int, name string")
    slow, quick = (DeltaSink(path=str(tmp_path / "lake")) for _ in range(2))
    slow_writer = slow.open(spark, rows.schema, "append")
    quick_writer = quick.open(spark, rows.schema, "append")
    slow_writer.write(rows, batch(0))
    begun, done = tmp_path / "begun", tmp_path / "done"

    def held(batches):
        begun.touch()
        while not done.exists():
            time.sleep(0.05)
        yield from batches

    with ThreadPoolExecutor() as pool:
        write = pool.submit(slow_writer.write, rows.coalesce(1).mapInArrow(held, rows.schema), batch(1))
        try:
            while not begun.exists() and not write.done():
                time.sleep(0.05)
            quick_writer.write(rows, batch(1))
        finally:
            done.touch()

    assert "DELTA_CONCURRENT_TRANSACTION" in str(write.exception())
    assert rows_of(tmp_path / "lake") == [(1, "a")] * 2
    slow_writer.write(rows, batch(1))
    assert rows_of(tmp_path / "lake") == [(1, "a")] * 2, "what failed is looked for"


SIDE_BY_SIDE = """
name: lake
sources:
  trades: {files: {path: in, format: json, schema: "id int, broker string, amount int", files_per_trigger: 1}}
sinks:
  both:
    from: trades
    to:
      - delta: {path: all}
        name: all
      - delta: {path: last, key: [broker], latest_by: id}
        name: last
"""


def test_two_tables_side_by_side_keep_their_numbers_apart(trades):
    """Each target's number is a setting of a session, and the first try of batch 1 fails after one of the writes."""
    pipeline = with_hook(trades.load(SIDE_BY_SIDE), "last", FailOnce(batch=1, moment="written"))
    with pytest.raises(PenstockError, match="a crash"):
        trades.run_once(pipeline)
    trades.run_once(pipeline)

    assert len(rows_of(trades.folder / "all")) == 8
    assert rows_of(trades.folder / "last") == [(12, "A", 2), (13, "B", 3)]
    for name in ("all", "last"):
        assert DeltaTable(trades.folder / name).version() == 2


@pytest.fixture(scope="module")
def changed(spark, tmp_path_factory):
    """The path of a table in which the second batch has replaced the row of the first."""
    options = {"delta.enableChangeDataFeed": True}
    sink = DeltaSink(path=str(tmp_path_factory.mktemp("changed") / "t"), key=("id",), options=options)
    schema = spark.createDataFrame([], "id int, name string").schema
    sink_writer = sink.open(spark, schema, "update")
    for number, name in enumerate(["old", "new"]):
        sink_writer.write(spark.createDataFrame([(1, name)], schema), batch(number, mode="update"))
    return sink.path


def test_each_version_can_be_read_again(spark, changed):
    assert rows_of(changed, version=1) == [(1, "old")]
    assert rows_of(changed) == [(1, "new")]
    static = DeltaSource(path=changed, as_of=1).read_static(spark)
    assert [tuple(row) for row in static.collect()] == [(1, "old")]


def test_rows_of_one_key_in_a_batch_are_refused_unless_one_is_the_latest(spark, tmp_path):
    schema = spark.createDataFrame([], "id int, at int, name string").schema
    rows = spark.createDataFrame([(1, 5, "late"), (1, 3, "early"), (2, None, "none")], schema)

    strict = DeltaSink(path=str(tmp_path / "t"), key=("id",))
    strict_writer = strict.open(spark, schema, "update")
    with pytest.raises(Exception, match=r'several rows of one batch have the key \{"id":1\}; name the column'):
        strict_writer.write(rows, batch(0, mode="update"))
    assert rows_of(strict.path) == []

    latest = DeltaSink(path=strict.path, key=("id",), latest_by="at")
    latest_writer = latest.open(spark, schema, "update")
    latest_writer.write(rows, batch(0, mode="update"))
    older = spark.createDataFrame([(1, 4, "older"), (2, 1, "some")], schema)
    latest_writer.write(older, batch(1, mode="update"))
    assert rows_of(latest.path) == [(1, 5, "late"), (2, 1, "some")]


def test_other_columns_are_added_or_left_out_by_policy(spark, tmp_path):
    path = str(tmp_path / "t")
    spark.createDataFrame([(1, "a")], "id int, name string").write.format("delta").save(path)

    def write(number: int, row: tuple, columns: str, **options: object) -> list[tuple]:
        rows = spark.createDataFrame([row], columns)
        DeltaSink(path=path, **options).open(spark, rows.schema, "append").write(rows, batch(number))
        return rows_of(path)

    merged = write(0, (2, 2.5, "b"), "ID int, extra double, name string", schema="ignore", key=("ID",))
    assert merged == [(1, "a"), (2, "b")]
    assert write(1, (3,), "ID int", schema="ignore", key=("ID",))[-1] == (3, None)
    appended = write(2, (4, 4.5, "d"), "ID int, extra double, name string", schema="add")
    assert appended == [(1, "a", None), (2, "b", None), (3, None, None), (4, "d", 4.5)]
    assert write(3, (5,), "ID int", schema="add")[-1] == (5, None, None)
    merged = write(4, (6, 7, "f"), "ID int, more int, name string", schema="add", key=("ID",))
    assert (merged[0], merged[-1]) == ((1, "a", None, None), (6, "f", None, 7))


def test_everything_that_does_not_fit_is_said_at_once(spark, tmp_path, refusal):
    sink = DeltaSink(path=str(tmp_path / "t"))
    sink.open(spark, spark.createDataFrame([], "a int, b string, c bigint").schema, "append")

    said = refusal(sink.open, spark, spark.createDataFrame([], "b int, c int, d date").schema, "append")

    assert said == (
        f"the rows do not match the table in {sink.path}: missing in the rows: a int; not in the table: d date; "
        "b is int in the rows and string in the table; "
        "change what the sink reads, or set 'schema' to add or ignore other columns"
    )


def test_options_that_name_unknown_columns_or_other_partitions_are_refused(spark, tmp_path, refusal):
    schema = spark.createDataFrame([], "id int, day string").schema
    DeltaSink(path=str(tmp_path / "t"), partition_by=("day",)).open(spark, schema, "append")

    assert refusal(DeltaSink(path=str(tmp_path / "t"), partition_by=("id",)).open, spark, schema, "append") == (
        f"the table in {tmp_path}/t is partitioned by day, not by id; correct 'partition_by' or 'path'"
    )
    assert refusal(DeltaSink(path="t", key=("ids",)).open, spark, schema, "update") == (
        "'key' names 'ids', which the rows do not have; did you mean 'id'?"
    )
    assert "add 'key: [...]'" in refusal(DeltaSink(path="t").open, spark, schema, "update")


def test_small_files_are_put_together_after_so_many_batches(spark, tmp_path):
    compact = {"every": "2 batches", "vacuum": "7 days"}
    sink = DeltaSink(path=str(tmp_path / "t"), compact=compact, target_file_size="1 MB")
    rows = spark.createDataFrame([(1,)], "id int")
    sink_writer = sink.open(spark, rows.schema, "append")
    sink_writer.write(rows, batch(0))
    dead = Path(files_of(sink.path)[0]).with_name("part-of-a-crashed-write.parquet")
    dead.write_bytes(b"")
    os.utime(dead, (1, 1))

    sink_writer.write(rows, batch(1))

    assert len(files_of(sink.path)) == 1
    assert rows_of(sink.path) == [(1,), (1,)]
    assert "OPTIMIZE" in [entry["operation"] for entry in DeltaTable(sink.path).history()]
    assert not dead.exists()


def test_small_files_are_put_together_after_so_much_time(spark, tmp_path):
    sink = DeltaSink(path=str(tmp_path / "t"), compact={"every": "1 millisecond"})
    rows = spark.createDataFrame([(1,)], "id int")
    sink_writer = sink.open(spark, rows.schema, "append")
    sink_writer.write(rows, batch(0))
    sink_writer.write(rows, batch(1))

    assert len(files_of(sink.path)) == 1
    assert rows_of(sink.path) == [(1,), (1,)]


def test_large_batches_are_cut_into_files_of_the_target_size(spark, tmp_path):
    rows = spark.range(200_000).selectExpr("id", "uuid() AS text").repartition(8)
    small = DeltaSink(path=str(tmp_path / "small"), target_file_size="1 MB")
    small_writer = small.open(spark, rows.schema, "append")
    small_writer.write(rows, batch(0))

    assert len(files_of(small.path)) > 1
    assert len(DeltaTable(small.path).to_pyarrow_table()) == 200_000


def test_a_stream_reads_what_is_added_from_where_it_should(project):
    for number in range(2):
        rows = project.spark.createDataFrame([(number,)], "id int")
        rows.write.format("delta").mode("append").save(str(project.folder / "lake"))
    text = """
    sources: {{lake: {{delta: {{path: lake, {options}}}}}}}
    sinks: {{{name}: {{from: lake, memory: {{}}}}}}
    """

    run = project.run(text.format(options="files_per_trigger: 1", name="all_of_it"))
    assert [each.rows_in for each in run.batches] == [1, 1]
    project.run(text.format(options="start: 1, bytes_per_trigger: 1", name="from_one"), "one.yaml")
    assert project.rows("from_one") == [(1,)]


def test_a_table_whose_rows_change_is_read_by_policy_and_fails_a_stream_by_default(project, refusal):
    spark, path = project.spark, str(project.folder / "lake")
    spark.createDataFrame([(1,), (2,)], "id int").coalesce(1).write.format("delta").save(path)
    by_policy = project.load(
        """
    name: by_policy
    sources:
      skipped: {delta: {path: lake, on_change: skip}}
      resent: {delta: {path: lake, on_change: resend}}
    sinks:
      skip: {from: skipped, files: {path: skip, format: json}}
      resend: {from: resent, files: {path: resend, format: json}}
    """,
        "by_policy.yaml",
    )
    by_default = project.load("""
    name: by_default
    sources: {lake: {delta: {path: lake}}}
    sinks: {out: {from: lake, files: {path: out, format: json}}}
    """)
    project.run_once(by_policy)
    project.run_once(by_default)

    spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 1")
    project.run_once(by_policy)

    assert project.written("skip", "json", "id int") == [(1,), (2,)]
    assert project.written("resend", "json", "id int") == [(1,), (2,), (2,)]
    assert "on_change" in refusal(project.run_once, by_default)


def test_a_change_feed_has_every_change(project, changed):
    project.run(f"""
    sources: {{lake: {{delta: {{path: "{changed}", change_feed: true}}}}}}
    steps: {{told: "SELECT _change_type, name FROM lake"}}
    sinks: {{changes: {{from: told, memory: {{}}}}}}
    """)

    assert project.rows("changes") == [
        ("insert", "old"),
        ("update_postimage", "new"),
        ("update_preimage", "old"),
    ]


def test_options_of_streams_and_of_tables_are_not_mixed(spark, tmp_path, refusal):
    spark.range(1).write.format("delta").save(str(tmp_path))

    assert "'as_of' is for static tables" in refusal(DeltaSource(path=str(tmp_path), as_of=0).read, spark)
    assert "'start' cannot be used with a static table" in refusal(
        DeltaSource(path=str(tmp_path), start=0).read_static, spark
    )
    missing = DeltaSource(path=str(tmp_path / "none"))
    with pytest.raises(BuildError, match="there is no Delta table in"):
        probe(missing, 1, print)


def test_a_static_table_is_read_again_when_it_has_a_new_version(project):
    import threading

    from penstock.engine import start

    spark, users = project.spark, str(project.folder / "users")
    spark.createDataFrame([("ann", "Rome")], "who string, city string").write.format("delta").save(users)
    project.put("logins/1.json", '{"who": "ann"}', at=1)
    pipeline = project.load("""
    sources:
      logins: {files: {path: logins, format: json, schema: who string}}
      users: {delta: {path: users}, static: {refresh: on change}}
    steps: {named: "SELECT who, city FROM logins JOIN users USING (who)"}
    sinks: {named_by_delta: {from: named, files: {path: out, format: json}}}
    """)
    refreshed = threading.Event()
    queries = start(pipeline, spark, emit=lambda _what, **_facts: refreshed.set())
    try:
        next(iter(queries)).processAllAvailable()
        spark.createDataFrame([("ann", "Paris")], "who string, city string").write.format("delta").mode(
            "overwrite"
        ).save(users)
        assert refreshed.wait(30), "the table was not read again"
        project.put("logins/2.json", '{"who": "ann"}', at=2)
        next(iter(queries)).processAllAvailable()
    finally:
        queries.stop()

    assert project.written("out", "json", "who string, city string") == [("ann", "Paris"), ("ann", "Rome")]
