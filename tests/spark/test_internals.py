"""Every function that reaches into Spark's internals: each test fails when Spark moves what its function uses."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming import StreamingQueryListener
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from penstock.spark import internals
from penstock.spark.internals import DRAIN, LATE_ROWS, HadoopFiles, MemoryStream, SharedLong

_PATIENCE_SECONDS = 60
EXECUTION = "org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution"


@contextmanager
def started(rows: DataFrame, folder: Path, write: Any = None, **trigger: Any) -> Iterator[StreamingQuery]:
    """A query over the rows; what it does with a batch is `write`."""
    writer = rows.writeStream.option("checkpointLocation", str(folder / "checkpoint")).queryName("internals")
    writer = writer.foreachBatch(write) if write else writer.format("noop")
    query = writer.trigger(**trigger).start() if trigger else writer.start()
    try:
        yield query
    finally:
        query.stop()


def wait_for_first_batch(query: StreamingQuery) -> None:
    """Wait until the query sleeps until its next trigger; `processAllAvailable` would wait for that one."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while query.lastProgress is None or query.status["isTriggerActive"]:
        assert time.monotonic() < deadline
        assert not query.awaitTermination(0.05)


@pytest.fixture
def stream(spark) -> MemoryStream:
    return MemoryStream(spark)


class Gate:
    """A batch function that waits until it is let through."""

    def __init__(self) -> None:
        self.entered, self.opened, self.batches = threading.Event(), threading.Event(), []

    def __call__(self, rows: DataFrame, number: int) -> None:  # noqa: ARG002
        self.entered.set()
        assert self.opened.wait(_PATIENCE_SECONDS)
        self.batches.append(number)

    def wait(self) -> None:
        assert self.entered.wait(_PATIENCE_SECONDS)


# What this Spark has


def test_this_spark_has_all_that_late_rows_and_draining_need(spark):
    assert internals.find_missing(spark, LATE_ROWS) == []
    assert internals.find_missing(spark, DRAIN) == []


def test_a_class_or_method_that_is_not_there_is_named(spark):
    wanted = {"org.apache.spark.NoSuchClass": ("a",), EXECUTION: ("state", "noSuchMethod"), "java.lang.String": ()}

    assert internals.find_missing(spark, wanted) == ["org.apache.spark.NoSuchClass", f"{EXECUTION}.noSuchMethod"]


def test_the_jvm_is_the_sessions(spark):
    assert internals.jvm(spark).java.lang.Math.addExact(2, 3) == 5
    assert internals.active_jvm() is internals.jvm(spark)


def test_the_process_of_the_jvm_is_a_live_java(spark):
    process = internals.jvm_process(spark)

    assert process.poll() is None
    assert process.stdin is not None
    family = [psutil.Process(process.pid), *psutil.Process(process.pid).children()]
    assert "java" in {each.name() for each in family}
    assert psutil.Process(process.pid).ppid() == os.getpid()


def test_listeners_are_waited_for_but_not_for_ever(spark, stream, tmp_path):
    release, entered = threading.Event(), threading.Event()

    class Slow(StreamingQueryListener):
        def onQueryStarted(self, event):  # noqa: N802
            pass

        def onQueryProgress(self, event):  # noqa: ARG002, N802
            entered.set()
            release.wait(_PATIENCE_SECONDS)

        def onQueryTerminated(self, event):  # noqa: N802
            pass

    listener = Slow()
    spark.streams.addListener(listener)
    try:
        stream.add(["a"])
        with started(stream.read(), tmp_path, availableNow=True) as query:
            query.processAllAvailable()
            assert entered.wait(_PATIENCE_SECONDS)

            assert not internals.wait_for_listeners(spark, 0.2)
            release.set()
            assert internals.wait_for_listeners(spark, _PATIENCE_SECONDS)
    finally:
        release.set()
        spark.streams.removeListener(listener)


# Sessions and plans


def test_a_cloned_session_has_the_same_views_and_settings_of_its_own(spark):
    spark.range(2).createOrReplaceTempView("internals_view")

    clone = internals.clone_session(spark)
    clone.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")

    assert clone.table("internals_view").count() == 2
    assert spark.conf.get("spark.sql.session.timeZone") != "Asia/Tokyo"
    spark.catalog.dropTempView("internals_view")


def test_rows_that_are_moved_are_planned_with_the_other_sessions_settings(spark):
    clone = internals.clone_session(spark)
    clone.conf.set("spark.sql.adaptive.enabled", "false")
    clone.conf.set("spark.sql.shuffle.partitions", "3")
    rows = spark.range(10).repartition("id")

    moved = internals.move_to_session(rows, clone)

    assert moved.rdd.getNumPartitions() == 3
    assert sorted(row.id for row in moved.collect()) == list(range(10))


def test_a_statement_is_parsed_without_being_analyzed(spark):
    plan = internals.parse_plan(spark, "SELECT a FROM no_such_table")

    assert internals.class_name(plan) == "Project"
    with pytest.raises(ParseException):
        internals.parse_plan(spark, "SELEC a")


def test_a_plan_becomes_a_dataframe_again(spark):
    assert internals.to_dataframe(spark, internals.parse_plan(spark, "SELECT 1 AS a")).collect() == [(1,)]
    rows = spark.range(3).where("id > 0")
    assert internals.to_dataframe(spark, internals.analyze(rows)).count() == 2


def test_an_expression_becomes_a_column(spark):
    rows = spark.range(3)
    attribute = internals.analyze(rows).output().head()

    found = rows.select((internals.to_column(spark, attribute) + 1).alias("n")).collect()

    assert found == [(1,), (2,), (3,)]


def test_a_node_gets_other_children(spark):
    rows = spark.range(10)
    above = internals.analyze(rows.where("id > 1"))
    below = internals.analyze(rows.where("id < 4"))

    plan = internals.replace_children(spark, above, [below])

    assert [row.id for row in internals.to_dataframe(spark, plan).collect()] == [2, 3]


def test_a_plan_is_walked_from_the_top(spark):
    plan = internals.analyze(spark.range(3).where("id > 0").selectExpr("id + 1"))

    assert [internals.class_name(node) for node in internals.walk(plan)] == ["Project", "Filter", "Range"]
    assert [internals.class_name(node) for node in internals.to_list(plan.children())] == ["Filter"]


def test_the_streaming_leaves_of_a_plan_are_its_sources(spark):
    ticks = spark.readStream.format("rate").load()
    static = spark.range(3).withColumnRenamed("id", "value")

    leaves = internals.streaming_leaves(internals.analyze(ticks.join(static, "value").unionByName(ticks)))

    assert len(leaves) == 2


@pytest.mark.parametrize("kind", ["rate", "text", "memory"])
def test_copies_of_a_source_have_one_id_and_other_sources_another(spark, tmp_path, kind: str):
    def read() -> DataFrame:
        if kind == "memory":
            return MemoryStream(spark).read()
        return spark.readStream.format(kind).load(**({"path": str(tmp_path)} if kind == "text" else {}))

    one, other = read(), read()

    # Spark copies the leaf for the second branch of a self-join.
    joined = one.alias("a").join(one.alias("b"), F.expr("a.value = b.value"))
    ids = [internals.source_id(spark, leaf) for leaf in internals.streaming_leaves(internals.analyze(joined))]
    (another,) = internals.streaming_leaves(internals.analyze(other))

    assert len(ids) == 2
    assert len(set(ids)) == 1
    assert internals.source_id(spark, another) not in ids


def test_new_files_are_seen_after_a_refresh_of_the_listing(spark, tmp_path):
    spark.range(2).coalesce(1).write.parquet(str(tmp_path / "one"))
    rows = spark.read.parquet(str(tmp_path / "one"))
    assert rows.count() == 2
    (file,) = (tmp_path / "one").glob("*.parquet")
    shutil.copy(file, tmp_path / "one" / "copy.parquet")
    assert internals.to_dataframe(spark, internals.analyze(rows)).count() == 2

    internals.refresh_file_listings(rows)

    assert internals.to_dataframe(spark, internals.analyze(rows)).count() == 4


def test_java_objects_are_told_from_python_values(spark):
    assert internals.is_java_object(internals.jvm(spark).java.util.ArrayList())
    assert not internals.is_java_object([])


def test_sparks_own_checkers_are_asked_before_a_query_starts(spark):
    ticks = spark.readStream.format("rate").load()
    counts = ticks.groupBy("value").count()

    internals.check_streaming(counts, "update")
    internals.check_streaming(ticks, "append", continuous=True)
    internals.check_streaming(ticks, "update", real_time=True)
    with pytest.raises(AnalysisException, match="watermark"):
        internals.check_streaming(counts, "append")
    with pytest.raises(AnalysisException, match=r"(?i)continuous"):
        internals.check_streaming(counts, "update", continuous=True)
    with pytest.raises(Exception, match=r"(?i)real.?time"):
        internals.check_streaming(ticks, "append", real_time=True)


def test_sparks_planner_is_asked_as_well(spark):
    left, right = (spark.readStream.format("rate").load().alias(name) for name in ("l", "r"))

    with pytest.raises(AnalysisException, match="without equality"):
        internals.check_streaming(left.join(right, F.expr("l.value > r.value")), "append")
    assert "Join" in internals.plan_batch(left.join(right, F.expr("l.value = r.value"))).sparkPlan().toString()


# Late rows


def test_the_end_of_a_group_is_the_end_of_its_window_or_its_own_time(spark):
    rows = spark.sql("SELECT TIMESTAMP_MICROS(7 * 60000000) AS at")
    windows = rows.select(F.window("at", "5 minutes").alias("window"))

    def end(of: DataFrame) -> int:
        time = internals.analyze(of).output().head()
        return of.select(internals.end_of_group(spark, time).alias("end")).first().end

    assert end(rows) == 7 * 60_000_000
    assert end(windows) == 10 * 60_000_000


def test_a_shared_number_is_read_by_a_plan_that_exists_already(spark):
    held = SharedLong.create(spark)
    rows = spark.range(2).select(held.read().alias("n"))

    assert rows.collect() == [(0,), (0,)]
    held.set(5)
    assert rows.collect() == [(5,), (5,)]


def test_a_function_is_called_while_a_batch_is_planned(spark, stream, tmp_path):
    calls = []
    zeros = internals.call_while_planning(spark, lambda: calls.append(1), "a-name")
    rows = stream.read().select(zeros.alias("n"))
    seen: list[Any] = []

    with started(rows, tmp_path, lambda batch, number: seen.append((number, batch.collect()))) as query:
        for _ in range(3):
            stream.add(["a"])
            query.processAllAvailable()

    assert seen == [(number, [(0,)]) for number in range(3)]
    assert len(calls) >= 3


def test_the_watermark_of_a_batch_is_the_one_by_which_its_late_rows_are_dropped(spark, stream, tmp_path):
    seen: dict[int, int] = {}
    current: list[int] = []

    def update() -> None:
        (query,) = [each for each in spark.streams.active if each.name == "internals"]
        current.append(internals.batch_watermark(query))

    times = stream.read().select(F.to_timestamp("value").alias("at")).withWatermark("at", "10 minutes")
    rows = times.select("at", internals.call_while_planning(spark, update, "watermark").alias("zero"))

    with started(rows, tmp_path, lambda batch, number: seen.update({number: (batch.count(), current[-1])[1]})) as query:
        for minute in (20, 30, 40, 50):
            stream.add([f"1970-01-01 00:{minute}:00+00:00"])
            query.processAllAvailable()

    # Each batch drops what was late before the rows of the batch before it came.
    assert [seen[number] for number in range(4)] == [0, 0, 10 * 60_000, 20 * 60_000]


# Running queries


def test_the_newest_reports_of_a_query_are_those_that_spark_shows(spark, stream, tmp_path):
    with started(stream.read(), tmp_path) as query:
        for text in ("a", "b"):
            stream.add([text])
            query.processAllAvailable()

        found = [json.loads(each.json()) for each in internals.recent_progress(query)]

    assert [each["batchId"] for each in found if each["numInputRows"]] == [0, 1]


def test_micro_batches_are_told_from_the_continuous_engine(spark, stream, tmp_path):
    ticks = spark.readStream.format("rate").load()

    with started(stream.read(), tmp_path / "a") as query:
        assert internals.has_batches(query)
    with started(ticks, tmp_path / "b", continuous="1 second") as query:
        assert not internals.has_batches(query)


def test_a_running_batch_is_finished_and_no_other_begins(spark, stream, tmp_path):
    gate = Gate()
    with started(stream.read(), tmp_path, gate) as query:
        stream.add(["a"])
        gate.wait()
        stream.add(["b"])
        assert internals.is_in_batch(query)

        internals.forbid_next_batch(spark, query)
        gate.opened.set()

        assert query.awaitTermination(_PATIENCE_SECONDS)
        assert query.exception() is None
        assert not internals.is_thread_alive(query)
    assert gate.batches == [0]
    assert (tmp_path / "checkpoint" / "commits" / "0").exists()
    assert not (tmp_path / "checkpoint" / "offsets" / "1").exists()


def test_a_query_that_waits_for_its_next_trigger_is_alive_and_outside_of_a_batch(spark, stream, tmp_path):
    stream.add(["a"])
    with started(stream.read(), tmp_path, processingTime="1 hour") as query:
        wait_for_first_batch(query)

        assert internals.is_thread_alive(query)
        assert not internals.is_in_batch(query)
    assert not internals.is_thread_alive(query)


def test_a_query_counts_as_inside_of_a_batch_when_spark_does_not_let_us_know(spark, stream, tmp_path, monkeypatch):
    stream.add(["a"])
    with started(stream.read(), tmp_path, processingTime="1 hour") as query:
        wait_for_first_batch(query)
        assert not internals.is_in_batch(query)

        monkeypatch.setattr(internals, "_BATCH_METHOD", "noSuchMethod")

        assert internals.is_in_batch(query)


def test_a_memory_stream_has_the_declared_columns_or_one_of_text(spark, stream):
    schema = StructType.fromDDL("id int, tags array<string>")

    assert stream.read().dtypes == [("value", "string")]
    assert MemoryStream(spark, schema).read().schema == schema
    assert MemoryStream(spark, schema).read().isStreaming


def test_files_and_folders_are_renamed_through_hadoop(spark, tmp_path):
    files = HadoopFiles(spark)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "1").write_text("one")

    assert files.exists(f"{tmp_path}/a/1")
    assert files.rename(f"{tmp_path}/a", f"{tmp_path}/b")

    assert not files.exists(f"{tmp_path}/a")
    assert (tmp_path / "b" / "1").read_text() == "one"
