"""Files in: formats, which files, how many at once, and what becomes of them."""

from __future__ import annotations

import pytest

ROWS = [(1, "one"), (2, "two")]
HOUR = 3600


def source(more: str) -> str:
    """A pipeline that reads the folder `input` with some settings into memory."""
    return f"""
    name: p
    sources:
      rows:
        files: {{path: input, {more}}}
    sinks:
      out: {{from: rows, memory: {{}}}}
    """


def write(project, format_: str) -> None:
    """Two rows in the folder `input`."""
    rows = project.spark.createDataFrame(ROWS, "id int, name string").coalesce(1)
    rows.write.format(format_).save(str(project.folder / "input"))


@pytest.mark.parametrize("format_", ["csv", "json", "parquet", "orc", "avro"])
@pytest.mark.parametrize("columns", ['schema: "id int, name string"', "infer: true"], ids=["declared", "inferred"])
def test_files_of_every_format_are_read(project, format_, columns):
    write(project, format_)

    project.run(source(f"format: {format_}, {columns}"))

    assert [tuple(row) for row in project.rows("out")] == ROWS
    types = [field.dataType.simpleString() for field in project.spark.table("out").schema]
    assert types in (["int", "string"], ["bigint", "string"])


def test_lines_of_text_files_are_rows_of_value(project):
    project.put("input/a.txt", "one\ntwo\n\n")

    project.run(source("format: text"))

    assert project.rows("out") == [("",), ("one",), ("two",)]


def test_lines_of_text_files_can_be_decoded(project):
    project.put("input/a.txt", '{"id": 1}\n{"id": 2}\n')

    project.run("""
        name: p
        sources:
          rows: {files: {path: input}, json: id int}
        sinks:
          out: {from: rows, memory: {}}
        """)

    assert project.rows("out") == [(1,), (2,)]


def test_a_header_of_csv_files_is_an_option_of_spark(project):
    project.put("input/a.csv", "id,name\n1,one\n")

    project.run(source("format: csv, infer: true, options: {header: true}"))

    assert project.spark.table("out").columns == ["id", "name"]
    assert project.rows("out") == [(1, "one")]


def test_columns_are_inferred_from_the_files_that_are_read_only(project):
    project.put("input/2024/a.json", '{"id": 1}\n')
    project.put("input/2024/b.txt", "no json at all\n")

    project.run(source('format: json, infer: true, glob: "*.json", recursive: true'))

    assert project.rows("out") == [(1,)]


def test_inferring_from_an_empty_folder_says_that_a_schema_is_needed(project, refusal):
    (project.folder / "input").mkdir()

    said = refusal(project.run, source("format: json, infer: true"))

    assert said.startswith(f"{project.folder}/pipeline.yaml:4:3: source 'rows': [UNABLE_TO_INFER_SCHEMA]")


def test_files_per_trigger_gives_one_batch_per_file_oldest_first(project):
    for number in (2, 1, 3):
        project.put(f"input/{number}.txt", f"{number}\n" * number, at=number * HOUR)

    run = project.run(source("format: text, files_per_trigger: 1"))

    assert [batch.rows_in for batch in run.batches] == [1, 2, 3]


def test_bytes_per_trigger_bounds_a_batch(project):
    for number in (1, 2, 3):
        project.put(f"input/{number}.txt", f"{number}\n" * 10, at=number * HOUR)

    run = project.run(source("format: text, bytes_per_trigger: 30"))

    assert [batch.rows_in for batch in run.batches] == [10, 10, 10]


def test_newest_first_reads_a_backlog_from_its_end(project):
    for number in (1, 2, 3):
        project.put(f"input/{number}.txt", f"{number}\n" * number, at=number * HOUR)

    run = project.run(source("format: text, files_per_trigger: 1, newest_first: true"))

    assert [batch.rows_in for batch in run.batches] == [3, 2, 1]


def test_files_older_than_max_age_before_the_newest_are_ignored(project):
    #  00:00 old   02:00 edge       03:30 new: 1 hour 30 minutes before it begins at 02:00
    project.put("input/old.txt", "old\n", at=0)
    project.put("input/new.txt", "new\n", at=7 * HOUR // 2)
    pipeline = project.load(source("format: text, max_age: 1 hour 30 minutes"))

    with project.started(pipeline) as (queries, _):
        next(iter(queries)).processAllAvailable()
        project.put("input/older.txt", "older\n", at=2 * HOUR - 1)
        project.put("input/edge.txt", "edge\n", at=2 * HOUR + 1)
        next(iter(queries)).processAllAvailable()

    assert project.rows("out") == [("edge",), ("new",), ("old",)]


def test_a_glob_chooses_files_and_recursive_looks_into_folders(project):
    project.put("input/a.log", "a\n")
    project.put("input/a.tmp", "no\n")
    project.put("input/deep/er/b.log", "b\n")

    project.run(source('format: text, glob: "*.log"'))
    flat = project.rows("out")
    project.run(source('format: text, glob: "*.log", recursive: true').replace("name: p", "name: q"))

    assert flat == [("a",)]
    assert project.rows("out") == [("a",), ("b",)]


def test_a_glob_of_folders_is_read(project):
    project.put("input/2024/a.txt", "a\n")
    project.put("input/2025/b.txt", "b\n")
    project.put("input/other/c.txt", "c\n")

    project.run(source("format: text").replace("path: input", 'path: "input/20*"'))

    assert project.rows("out") == [("a",), ("b",)]


@pytest.mark.parametrize("after", ["archive, archive_to: done", "delete"])
def test_read_files_are_cleaned_when_a_later_batch_is_planned(project, after):
    for number in (1, 2, 3):
        project.put(f"input/{number}.txt", f"{number}\n", at=number * HOUR)

    project.run(source(f"format: text, files_per_trigger: 1, after_read: {after}"))

    assert project.rows("out") == [("1",), ("2",), ("3",)]
    assert "1.txt" not in {path.name for path in (project.folder / "input").iterdir()}
    archived = [path.name for path in (project.folder / "done").rglob("*.txt")]
    assert ("1.txt" in archived) == after.startswith("archive")


def test_a_folder_that_is_missing_is_named(project, refusal):
    said = refusal(project.run, source("format: text"))

    assert said.startswith(f"{project.folder}/pipeline.yaml:4:3: source 'rows': [PATH_NOT_FOUND]")
    assert str(project.folder / "input") in said


@pytest.mark.parametrize("format_", ["parquet", "avro"])
def test_files_of_another_type_than_declared_end_the_run_in_one_readable_line(project, refusal, format_):
    write(project, format_)

    said = refusal(project.run, source(f'format: {format_}, schema: "id int, name int"'))

    assert said.startswith(f"{project.folder}/pipeline.yaml:7:3: sink 'out': ")
    assert "\n" not in said
    assert f"{project.folder}/input/part-" in said


def test_metadata_tells_the_file_of_each_row(project):
    project.put("input/a.json", '{"id": 1}\n')

    project.run(
        source('format: json, schema: "id int"').replace("}\n    sinks", "}\n        metadata: true\n    sinks")
    )

    ((number, record),) = project.rows("out")
    assert (number, record["file_name"]) == (1, "a.json")


@pytest.mark.parametrize("decode", ["", "        json: id int\n"])
def test_metadata_tells_the_file_of_each_line(project, decode):
    project.put("input/a.txt", '{"id": 1}\n')

    project.run(
        source("format: text").replace("}\n    sinks", "}\n" + decode + "        metadata: true\n    sinks"),
    )

    ((_, record),) = project.rows("out")
    assert record["file_name"] == "a.txt"
