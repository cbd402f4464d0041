"""Event times far ahead of the clock: bad records, which do not move the watermark."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone

import pytest

from penstock.engine.decode import bad_records

FAR = "9999-12-31 23:00:00"
BATCHES = [["2020-01-01 10:00:00", FAR], ["2020-01-01 10:10:00"], ["2020-01-01 10:20:00"], ["2020-01-01 14:00:00"]]
SOURCES = {
    "text that is decoded": ("{path: input, format: text, files_per_trigger: 1}", "json: at timestamp"),
    "text with its origin": (
        "{path: input, format: text, files_per_trigger: 1}",
        "json: at timestamp\n        metadata: true",
    ),
    "json files": ("{path: input, format: json, schema: at timestamp, files_per_trigger: 1}", "metadata: false"),
    "json files with a required time": (
        "{path: input, format: json, schema: at timestamp NOT NULL, files_per_trigger: 1}",
        "metadata: false",
    ),
    "parquet files": ("{path: input, format: parquet, schema: at timestamp, files_per_trigger: 1}", "metadata: false"),
}


def pipeline(kind: str, bad_records: str, watermark: str = "") -> str:
    files, decode = SOURCES[kind]
    return f"""
    name: ahead
    sources:
      rows:
        files: {files}
        {decode}
        watermark: {{column: AT, delay: 30 minutes{watermark}}}
        bad_records: {bad_records}
    steps:
      hours: SELECT window.start, count(*) AS n FROM rows GROUP BY window(at, '1 hour')
    sinks:
      out: {{from: hours, memory: {{}}}}
    """


def put(project, kind: str, batches: list[list[str]]) -> None:
    for number, times in enumerate(batches):
        if kind == "parquet files":
            rows = project.spark.createDataFrame([(time,) for time in times], "at string")
            folder = project.folder / f"made-{number}"
            rows.selectExpr("CAST(at AS timestamp) AS at").coalesce(1).write.parquet(str(folder))
            content = next(folder.glob("part-*.parquet")).read_bytes()
        else:
            content = "\n".join(json.dumps({"at": time}) for time in times).encode()
        project.put(f"input/{number}.data", content, at=1_600_000_000 + 60 * number)


@pytest.mark.parametrize("kind", SOURCES)
def test_a_row_far_ahead_is_counted_and_does_not_move_the_watermark(project, kind):
    put(project, kind, BATCHES)

    run = project.run(pipeline(kind, "drop"))

    assert [n for _, n in project.rows("out")] == [3]
    assert run.bad == {"rows": 1}
    assert sum(batch.late_rows for batch in run.batches) == 0


def test_without_the_limit_the_rows_after_it_are_late(project):
    put(project, "json files", BATCHES)

    run = project.run(pipeline("json files", "drop", ", max_ahead: none"))

    assert run.bad == {"rows": 0}
    assert sum(batch.late_rows for batch in run.batches) == 2


@pytest.mark.parametrize("kind", SOURCES)
def test_a_row_far_ahead_ends_the_run_with_its_time_and_the_option(project, refusal, kind):
    put(project, kind, BATCHES)

    said = refusal(project.run, pipeline(kind, "fail"))

    assert said.endswith(
        f"source 'rows': a record of {project.folder}/input/0.data has a time in 'AT' more than 1 hour ahead of the "
        f"clock: {FAR}; correct it where it comes from, raise 'max_ahead' of the watermark, or set 'bad_records: drop' "
        "to count such records and continue"
    )


def test_the_limit_is_what_the_file_says(project):
    soon = (datetime.now(timezone.utc) + timedelta(hours=3)).isoformat(timespec="seconds")
    put(project, "json files", [["2020-01-01 10:00:00", soon]])

    assert project.run(pipeline("json files", "drop")).bad == {"rows": 1}
    wider = pipeline("json files", "fail", ", max_ahead: 1 day 30 minutes").replace("name: ahead", "name: wider")
    assert project.run(wider).bad == {"rows": 0}


def test_a_null_time_is_neither_ahead_nor_bad(project):
    project.put("input/0.data", b'{"at": null}\n{"at": "2020-01-01 10:00:00"}\n')

    run = project.run(pipeline("json files", "drop"))

    assert run.bad == {"rows": 0}


def test_a_window_is_ahead_by_its_end(project):
    rows = project.spark.sql(f"SELECT named_struct('start', timestamp'{BATCHES[0][0]}', 'end', timestamp'{FAR}') AS w")
    rows.write.format("parquet").save(str(project.folder / "input"))
    text = """
    name: ahead
    sources:
      rows:
        files: {path: input, format: parquet, schema: "w struct<start: timestamp, end: timestamp>"}
        watermark: {column: w, delay: 30 minutes}
        bad_records: drop
    sinks:
      out: {from: rows, memory: {}}
    """

    run = project.run(text)

    assert (project.rows("out"), run.bad) == ([], {"rows": 1})


def test_a_batch_that_is_replayed_decides_by_the_clock_of_its_first_time(project):
    put(project, "json files", BATCHES[1:2])
    text = pipeline("json files", "drop").replace("from: hours, memory", "from: rows, console")
    assert project.run(text).bad == {"rows": 0}
    checkpoint = next(project.folder.glob(".penstock/**/commits/0")).parents[1]
    (checkpoint / "commits/0").unlink()
    offsets = checkpoint / "offsets/0"
    version, metadata, *sources = offsets.read_text().split("\n")
    logged = {**json.loads(metadata), "batchTimestampMs": 1_000_000_000_000}
    offsets.write_text("\n".join([version, json.dumps(logged), *sources]))
    for checksum in checkpoint.glob("*/.0.crc"):
        checksum.unlink()

    replay = project.run(text)

    assert replay.bad == {"rows": 1}


@pytest.mark.parametrize("kind", [kind for kind in SOURCES if kind != "parquet files"])
def test_rows_far_ahead_are_among_the_bad_records_that_a_preview_shows(project, kind):
    put(project, kind, BATCHES)
    (source,) = project.load(pipeline(kind, "fail")).sources
    raw = source.connector.read(project.spark)
    query = bad_records(source, raw).writeStream.format("memory").queryName("bad").trigger(availableNow=True).start()
    query.awaitTermination()

    assert project.rows("bad") == [("has a time in 'AT' more than 1 hour ahead of the clock", FAR)]


def from_kafka(kafka, topic: str, target: str, more: str, bad_records: str) -> str:
    return f"""
    name: ahead
    sources:
      rows:
        kafka: {{servers: "{kafka.address}", topics: [{topic}], start: earliest}}
        json: at timestamp
        watermark: {{column: at, delay: 30 minutes}}
        bad_records: {bad_records}
    sinks:
      out:
        from: rows
        kafka: {{servers: "{kafka.address}", topic: {target}}}
        {more}
    """


REAL_TIME = "mode: update\n        trigger: real-time 5 seconds"


@pytest.mark.parametrize("more", ["mode: append", REAL_TIME])
def test_a_record_far_ahead_is_named_by_its_position(project, kafka, topic, refusal, more):
    kafka.send(topic, '{"at": "2020-01-01 10:00:00"}', json.dumps({"at": FAR}))
    pipeline = project.load(from_kafka(kafka, topic, kafka.create(), more, "fail"))

    said = refusal(project.watch, pipeline)

    position = f"the record at topic {topic}, partition 0, offset 1"
    assert f"{position} has a time in 'at' more than 1 hour ahead of the clock: {FAR}; " in said


def test_a_real_time_query_leaves_out_what_is_far_ahead(project, kafka, topic):
    target = kafka.create()
    pipeline = project.load(from_kafka(kafka, topic, target, REAL_TIME, "drop"))
    kafka.send(topic, json.dumps({"at": FAR}), '{"at": "2020-01-01 10:00:00"}')

    with project.started(pipeline) as (queries, _):
        (message,) = kafka.read(target, 1)
        assert next(iter(queries)).exception() is None

    assert json.loads(message.value())["at"].startswith("2020-01-01T10:00:00")
