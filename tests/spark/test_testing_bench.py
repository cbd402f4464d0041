"""The bench: rows in, rows out, and what happens between two batches."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from penstock import Pipeline, files, kafka, memory, rate, socket
from penstock.errors import BuildError, CallError, RunError
from penstock.load import load
from penstock.testing import Bench, ReplayError

CLICKS = "at timestamp, page string"
PER_WINDOW = "SELECT window.start, count(*) AS clicks FROM clicks GROUP BY window(at, '10 minutes')"


def clicks(mode: str = "append") -> Pipeline:
    pipeline = Pipeline("clicks")
    pipeline.source(
        "clicks",
        kafka(servers="nowhere:1", topics=["c"]),
        json=CLICKS,
        watermark=("at", "5 minutes"),
        bad_records="drop",
    )
    pipeline.sink("out", pipeline.sql("windows", PER_WINDOW), memory(), mode=mode)
    return pipeline


def at(time: str) -> datetime:
    return datetime.fromisoformat(f"2024-01-01T{time}:00+00:00")


def click(time: str) -> dict[str, str]:
    return {"at": f"2024-01-01 {time}:00", "page": "home"}


def seen(bench: Bench, batch: int | None = None) -> list[tuple[str, int]]:
    return [(f"{row['start']:%H:%M}", row["clicks"]) for row in bench.rows("out", batch)]


def test_a_window_is_appended_once_the_watermark_passes_its_end(spark):
    #  10:00       10:10       10:20
    #   [--a--b-----)[----c------)     5 minutes late: c at 10:16 moves the watermark to 10:11
    with Bench(clicks(), spark) as bench:
        bench.feed("clicks", click("10:01"), click("10:04"))
        assert seen(bench) == []

        bench.feed("clicks", click("10:16"))
        assert seen(bench) == [("10:00", 2)]
        assert bench.rows()[0]["start"] == datetime(2024, 1, 1, 10, tzinfo=timezone.utc)
        assert bench.state_rows() == 1


def test_update_writes_what_changed_and_complete_the_whole_table(spark):
    with Bench(clicks("update"), spark) as updated:
        updated.feed("clicks", click("10:01"), click("10:11"))
        updated.feed("clicks", click("10:02"))

    with Bench(clicks("complete"), spark) as complete:
        complete.feed("clicks", click("10:01"), click("10:11"))
        complete.feed("clicks", click("10:02"))

    assert sorted(seen(updated, 0)) == [("10:00", 1), ("10:10", 1)]
    assert seen(updated, 1) == [("10:00", 2)]
    assert sorted(seen(complete, 1)) == sorted(seen(complete)) == [("10:00", 2), ("10:10", 1)]


def test_a_row_behind_the_watermark_is_counted_and_not_written(spark):
    with Bench(clicks("update"), spark) as bench:
        bench.feed("clicks", click("10:31"))
        bench.feed("clicks", click("10:01"))

    assert seen(bench) == [("10:30", 1)]
    assert bench.late_rows() == 1


def test_the_watermark_advances_without_a_row(spark):
    with Bench(clicks(), spark) as bench:
        bench.feed("clicks", click("10:01"))
        bench.advance("2024-01-01 10:14:59")
        assert seen(bench) == []

        bench.advance(at("10:15"))
        assert seen(bench) == [("10:00", 1)]
        assert seen(bench, 2) == [("10:00", 1)]

        bench.feed("clicks", click("10:02"), click("10:12"))
        bench.advance("2024-01-01 10:25:00")
        assert seen(bench) == [("10:00", 1), ("10:10", 1)]
        assert bench.late_rows() == 1


def test_the_watermark_can_advance_before_the_first_row(spark):
    with Bench(clicks(), spark) as bench:
        bench.advance("2024-01-01 10:30:00")
        bench.feed("clicks", click("10:01"))
        bench.advance("2024-01-01 11:00:00")

    assert seen(bench) == []
    assert bench.late_rows() == 1


@pytest.mark.parametrize("how", ["restart", "after_write", "before_commit"])
def test_what_was_counted_is_neither_lost_nor_counted_twice(spark, how):
    with Bench(clicks("update"), spark) as bench:
        bench.feed("clicks", click("10:01"))
        bench.restart() if how == "restart" else bench.crash(how)
        bench.feed("clicks", click("10:02"), click("10:12"), "not json")
        bench.feed("clicks", click("10:03"))

    assert seen(bench, 0) == [("10:00", 1)]
    assert sorted(seen(bench, 1)) == [("10:00", 2), ("10:10", 1)]
    assert seen(bench, 2) == [("10:00", 3)]
    assert bench.bad_records == {"clicks": 1}


@pytest.mark.parametrize("how", ["after_write", "before_commit"])
def test_a_window_that_a_crash_interrupts_is_appended_once(spark, how):
    with Bench(clicks(), spark) as bench:
        bench.feed("clicks", click("10:01"))
        bench.crash(how)
        bench.feed("clicks", click("10:16"))

    assert seen(bench) == [("10:00", 1)]


@pytest.mark.parametrize("how", ["after_write", "before_commit"])
def test_a_batch_that_differs_when_replayed_is_an_error(spark, how):
    pipeline = Pipeline("dice")
    pipeline.source("lines", socket(port=1))
    pipeline.sink("out", pipeline.sql("thrown", "SELECT uuid() AS id FROM lines"), memory())

    with Bench(pipeline, spark) as bench:
        bench.crash(how)
        with pytest.raises(ReplayError, match=r"sink 'out': batch 0 wrote different rows when it was replayed"):
            bench.feed("lines", "a")


def test_two_sources_that_are_fed_together_are_one_batch(spark):
    pipeline = Pipeline("both")
    pipeline.source(
        "ads", kafka(servers="x:1", topics=["a"]), json="id int, shown timestamp", watermark=("shown", "1 hour")
    )
    pipeline.source(
        "clicks", kafka(servers="x:1", topics=["c"]), json="ad int, at timestamp", watermark=("at", "1 hour")
    )
    text = """SELECT id, at FROM ads LEFT JOIN clicks
              ON id = ad AND at BETWEEN shown AND shown + INTERVAL 15 MINUTES"""
    pipeline.sink("out", pipeline.sql("joined", text), memory())

    with Bench(pipeline, spark) as bench:
        ads = [{"id": number, "shown": "2024-01-01 10:00:00"} for number in (1, 2)]
        bench.feed_all({"ads": ads, "clicks": [{"ad": 1, "at": "2024-01-01 10:10:00"}]})
        assert bench.rows(batch=0) == [{"id": 1, "at": at("10:10")}]
        assert len(bench._runs["out"].written[0]) == 1

        bench.advance("2024-01-01 11:30:00")
        assert bench.rows(batch=1) == [{"id": 2, "at": None}]


def test_files_and_a_topic_that_are_fed_together_are_one_batch(spark):
    pipeline = Pipeline("both")
    pipeline.source("left", files(path="nowhere", format="csv", schema="a int"))
    pipeline.source("right", kafka(servers="x:1", topics=["r"]), json="a int")
    pipeline.sink("out", pipeline.sql("all", "SELECT * FROM left UNION ALL SELECT * FROM right"), memory())

    with Bench(pipeline, spark) as bench:
        bench.feed_all({"left": [{"a": 1}], "right": [{"a": 2}]})
        bench.feed_all({"left": [{"a": 3}], "right": [{"a": 4}]})

        assert sorted(row["a"] for row in bench.rows("out", 1)) == [3, 4]
        assert len(bench._runs["out"].written) == 2


def test_each_sink_has_its_own_query_and_skips_what_it_does_not_read(spark):
    pipeline = Pipeline("two")
    pipeline.source("a", socket(port=1))
    pipeline.source("b", socket(port=2))
    pipeline.sink("from_a", "a", memory())
    pipeline.sink("from_b", pipeline.sql("both", "SELECT * FROM a UNION ALL SELECT * FROM b"), memory())

    with Bench(pipeline, spark) as bench:
        bench.feed("b", "1")
        bench.feed("a", "2")

    assert bench.rows("from_a", 0) == []
    assert bench.rows("from_a") == [{"value": "2"}]
    assert bench.rows("from_b") == [{"value": "1"}, {"value": "2"}]


def test_an_undecoded_record_has_its_key_and_whereabouts(spark):
    pipeline = Pipeline("raw")
    pipeline.source("records", kafka(servers="x:1", topics=["r"], headers=True))
    text = """SELECT CAST(key AS string) AS k, CAST(value AS string) AS v, topic, partition, offset, timestamp,
              CAST(headers[0].value AS string) AS h FROM records"""
    pipeline.sink("out", pipeline.sql("all", text), memory())

    with Bench(pipeline, spark) as bench:
        whole = {"value": {"a": 1}, "key": "k", "offset": 7, "partition": 2, "timestamp": "2024-01-01 10:00:00"}
        bench.feed("records", {**whole, "headers": {"x": "y"}, "topic": "other"}, "text", b"bytes")

    first, second, third = bench.rows()
    assert list(first.values()) == ["k", '{"a": 1}', "other", 2, 7, at("10:00"), "y"]
    assert (second["v"], second["topic"], second["partition"], second["offset"]) == ("text", "r", 0, 1)
    assert third["v"] == "bytes"


def test_a_decoded_record_has_its_key_and_whereabouts(spark):
    pipeline = Pipeline("keyed")
    pipeline.source(
        "records",
        kafka(servers="x:1", topics=["r"]),
        json="a int",
        key={"json": "id int"},
        metadata=True,
        bad_records="drop",
    )
    pipeline.sink("out", pipeline.sql("all", "SELECT a, key.id, _record.offset FROM records"), memory())

    with Bench(pipeline, spark) as bench:
        bench.feed("records", {"a": 1, "key": {"id": 5}, "_record": {"offset": 9}}, {"_value": "x", "_record": {}})

    assert bench.rows() == [{"a": 1, "id": 5, "offset": 9}]
    assert bench.bad_records == {"records": 1}


@pytest.mark.parametrize("format_", ["json", "csv", "parquet", "orc", "avro"])
def test_files_of_every_format_are_read_as_files(spark, format_):
    pipeline = Pipeline("typed")
    schema = "id int, price decimal(10,2), at timestamp, note string"
    pipeline.source("rows", files(path="nowhere", format=format_, schema=schema), bad_records="drop", metadata=True)
    pipeline.sink("out", pipeline.sql("all", "SELECT * EXCEPT (_record), _record.file_path FROM rows"), memory())
    row = {"id": 1, "price": "12.30", "at": "2024-01-01 10:00:00", "note": 'a, "b"\\ c'}

    with Bench(pipeline, spark) as bench:
        bench.feed("rows", row, {"id": 2})
        raw = {"csv": ["x,1,,"], "json": ['{"id": "x"}']}.get(format_, [])
        bench.feed("rows", {"id": 3}, *raw)

    first, second, third = bench.rows()
    assert (first["id"], str(first["price"]), first["at"], first["note"]) == (1, "12.30", at("10:00"), 'a, "b"\\ c')
    assert (second["id"], second["price"], second["note"]) == (2, None, None)
    assert third["id"] == 3
    assert format_ in third["file_path"]
    assert bench.bad_records == {"rows": len(raw)}


def test_avro_is_encoded_with_its_own_schema(spark, tmp_path):
    schema = {"type": "record", "name": "T", "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": "string"}]}
    pipeline = Pipeline("avro")
    decode = {"avro": schema, "registry_header": True}
    pipeline.source("records", kafka(servers="x:1", topics=["r"]), value=decode, bad_records="drop")
    pipeline.sink("out", "records", memory())

    with Bench(pipeline, spark) as bench:
        bench.feed("records", {"a": 1, "b": "x"}, b"\x00bad")

    assert bench.rows() == [{"a": 1, "b": "x"}]
    assert bench.bad_records == {"records": 1}


def test_made_up_rows_have_the_time_that_they_are_given(spark):
    pipeline = Pipeline("ticks")
    pipeline.source("ticks", rate())
    pipeline.sink("out", "ticks", memory(), trigger="1 hour")

    with Bench(pipeline, spark) as bench:
        bench.feed("ticks", {"timestamp": "2024-01-01 10:00:00"}, {"timestamp": "2024-01-01 10:01:00", "value": 7})

    assert bench.rows() == [{"timestamp": at("10:00"), "value": 0}, {"timestamp": at("10:01"), "value": 7}]


def test_a_query_that_fails_says_why(spark):
    pipeline = Pipeline("strict")
    pipeline.source("records", kafka(servers="x:1", topics=["r"]), json="a int")
    pipeline.sink("out", "records", memory())

    with Bench(pipeline, spark) as bench, pytest.raises(RunError) as caught:
        bench.feed("records", {"a": 1}, "not json")

    assert "source 'records': the record at topic r, partition 0, offset 1 is not json" in str(caught.value)


def test_a_pipeline_that_spark_refuses_says_why(spark):
    pipeline = Pipeline("wrong")
    pipeline.source("lines", socket(port=1))
    pipeline.sink("out", pipeline.sql("step", "SELECT valeu FROM lines"), memory())

    with pytest.raises(BuildError, match="valeu"):
        Bench(pipeline, spark)


def test_words_that_are_not_known_are_said_with_the_nearest(spark):
    with Bench(clicks(), spark) as bench:
        with pytest.raises(CallError, match=r"unknown source 'click'; did you mean 'clicks'\?"):
            bench.feed("click", {})
        with pytest.raises(CallError, match=r"unknown sink 'outt'; did you mean 'out'\?"):
            bench.rows("outt")
        with pytest.raises(CallError, match=r"unknown moment of a crash 'after_writ'"):
            bench.crash("after_writ")


def test_two_folders_may_each_have_a_module_of_the_same_name(spark, tmp_path):
    text = """
        sources: {lines: {socket: {port: 1}}}
        steps: {step: {python: "beside_model:step", reads: [lines]}}
        sinks: {out: {from: step, memory: {}}}
    """
    code = """
from pyspark.sql import functions as F
import beside_helper

@F.udf("string")
def shout(text):
    return beside_helper.word(text)

def step(lines):
    return lines.select(shout("value").alias("value"))
"""
    found = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "p.yaml").write_text(text)
        (folder / "beside_model.py").write_text(code)
        (folder / "beside_helper.py").write_text(f"def word(text):\n    return text + '{name}'\n")
        with Bench(load(folder / "p.yaml"), spark) as bench:
            bench.feed("lines", "x ")
            found += bench.rows()

    assert found == [{"value": "x one"}, {"value": "x two"}]


@pytest.mark.parametrize(("static", "city"), [("on change", "Paris"), ("1 hour", "Paris"), ("never", "Rome")])
def test_a_static_table_is_there_before_the_first_batch_and_changes_as_its_source_says(spark, static, city):
    pipeline = Pipeline("logins")
    pipeline.source("logins", socket(port=1))
    refresh = True if static == "never" else {"refresh": static}
    pipeline.source("users", files(path="nowhere", format="csv", schema="who string, city string"), static=refresh)
    text = "SELECT who, city FROM logins LEFT JOIN users ON value = who"
    pipeline.sink("out", pipeline.sql("named", text), memory())

    with Bench(pipeline, spark) as bench:
        bench.feed_all({"logins": ["ann"], "users": [{"who": "ann", "city": "Rome"}]})
        bench.feed_all({"logins": ["ann"], "users": [{"who": "ann", "city": "Paris"}]})
        assert bench.rows(batch=0) == [{"who": "ann", "city": "Rome"}]
        assert bench.rows(batch=1) == [{"who": "ann", "city": city}]

        bench.restart()
        bench.feed("logins", "ann")
        assert bench.rows(batch=2) == [{"who": "ann", "city": "Paris"}]
