"""Records of files that do not fit the declared columns: counted, or the end of the run, and never lost in silence."""

from __future__ import annotations

import pytest

FILES = {
    "json": '{"id": 1, "name": "a"}\n{"id": "x", "name": "b"}\n{"id": 3, "name": "c"}\n',
    "csv": "1,a\nx,b\n3,c\n",
    "text": '{"id": 1, "name": "a"}\n{"id": "x", "name": "b"}\n{"id": 3, "name": "c"}\n',
}
BAD = {"json": '{"id": "x", "name": "b"}', "csv": "x,b", "text": '{"id": "x", "name": "b"}'}
SELECTS = {
    "every column": ("SELECT * FROM rows", [(1, "a"), (3, "c")]),
    "a filter that the bad record does not pass": ("SELECT * FROM rows WHERE id >= 1", [(1, "a"), (3, "c")]),
    "a filter on a good column": ("SELECT * FROM rows WHERE name = 'a'", [(1, "a")]),
    "only a good column": ("SELECT name FROM rows", [("a",), ("c",)]),
    "no column": ("SELECT 7 AS n FROM rows", [(7,), (7,)]),
}


def pipeline(format_: str, bad_records: str, select: str = "SELECT * FROM rows", schema: str = "id int, name string"):
    declared = f'format: {format_}, schema: "{schema}"' if format_ != "text" else "format: text"
    decode = f"json: {schema}" if format_ == "text" else "metadata: false"
    return f"""
    name: p
    sources:
      rows:
        files: {{path: input, {declared}}}
        {decode}
        bad_records: {bad_records}
    steps:
      step: {select}
    sinks:
      out: {{from: step, memory: {{}}}}
    """


@pytest.mark.parametrize("format_", FILES)
@pytest.mark.parametrize("what", SELECTS)
def test_a_bad_record_is_counted_whatever_the_steps_ask_for(project, format_, what):
    select, expected = SELECTS[what]
    project.put(f"input/a.{format_}", FILES[format_])

    run = project.run(pipeline(format_, "drop", select))

    assert project.rows("out") == expected
    assert run.bad == {"rows": 1}


@pytest.mark.parametrize("format_", FILES)
@pytest.mark.parametrize("what", SELECTS)
def test_a_bad_record_ends_the_run_whatever_the_steps_ask_for(project, refusal, format_, what):
    project.put(f"input/a.{format_}", FILES[format_])

    said = refusal(project.run, pipeline(format_, "fail", SELECTS[what][0]))

    named = "json" if format_ == "text" else format_
    assert said == (
        f"{project.folder}/pipeline.yaml:11:3: sink 'out': source 'rows': a record of "
        f"{project.folder}/input/a.{format_} is not {named} of the "
        f"declared schema: {BAD[format_]}; correct it where it comes from, "
        "or set 'bad_records: drop' to count such records and continue"
    )


@pytest.mark.parametrize("format_", FILES)
def test_a_column_that_is_declared_not_null_is_required(project, format_):
    rows = {"csv": ",a\n2,b\n"}.get(format_, '{"name": "a"}\n{"id": 2, "name": "b"}\n')
    project.put(f"input/a.{format_}", rows)

    run = project.run(pipeline(format_, "drop", schema="id int NOT NULL, name string"))

    assert project.rows("out") == [(2, "b")]
    assert run.bad == {"rows": 1}


def test_a_missing_column_of_a_json_file_is_shown_with_the_rest_of_its_record(project, refusal):
    project.put("input/a.json", '{"name": "a"}\n')

    said = refusal(project.run, pipeline("json", "fail", schema="id int NOT NULL, name string"))

    assert '/input/a.json is not json of the declared schema: {"name":"a"}; ' in said


def test_a_column_of_parquet_files_that_is_declared_not_null_is_required(project):
    rows = project.spark.createDataFrame([(None, "a"), (2, "b")], "id int, name string")
    rows.write.parquet(str(project.folder / "input"))

    run = project.run(pipeline("parquet", "drop", schema="id int NOT NULL, name string"))

    assert project.rows("out") == [(2, "b")]
    assert run.bad == {"rows": 1}


def test_bad_records_are_counted_once_when_a_query_reads_their_source_twice(project):
    project.put("input/a.json", FILES["json"])

    run = project.run(pipeline("json", "drop", "SELECT id FROM rows UNION ALL SELECT id + 10 FROM rows"))

    assert project.rows("out") == [(1,), (11,), (13,), (3,)]
    assert run.bad == {"rows": 1}


def test_bad_records_are_counted_by_batch_and_by_source(project):
    project.put("input/1.json", FILES["json"], at=1)
    project.put("input/2.json", FILES["json"] * 2, at=2)
    project.put("other/1.csv", FILES["csv"])

    run = project.run("""
        name: p
        sources:
          rows:
            files: {path: input, format: json, schema: "id int, name string", files_per_trigger: 1}
            bad_records: drop
          others:
            files: {path: other, format: csv, schema: "id int, name string"}
            bad_records: drop
        steps:
          both: SELECT * FROM rows UNION ALL SELECT * FROM others
        sinks:
          out: {from: both, memory: {}}
        """)

    assert [batch.bad_records for batch in run.batches] == [{"rows": 1, "others": 1}, {"rows": 2, "others": 0}]


def test_a_record_of_several_lines_is_shown_in_one(project, refusal):
    project.put("input/a.json", '{"id":\n\n"x"}\n')
    text = pipeline("json", "fail").replace("format: json", "format: json, options: {multiLine: true}")

    said = refusal(project.run, text)

    assert said.endswith("and continue")
    assert "\n" not in said
