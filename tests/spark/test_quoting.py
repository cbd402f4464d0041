"""A back-tick in a column's name, which every piece of SQL that we write has to quote."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from penstock.connectors.delta import DeltaSink
from penstock.connectors.files import FileSink
from penstock.connectors.jdbc import JdbcSink
from penstock.connectors.kafka import KafkaSink
from penstock.options import quote
from penstock.steps.lookup import LookupStep
from penstock.testing.connectors import batch

KEY, VALUE = "a`key", "a.dotted `value` of ``three``"


def rows(spark, *values: tuple[int, str]) -> DataFrame:
    schema = StructType.fromDDL(f"{quote(KEY)} int, {quote(VALUE)} string")
    assert schema.names == [KEY, VALUE]
    return spark.createDataFrame(list(values), schema)


def written(spark, sink, *batches: DataFrame, mode: str = "append") -> None:
    writer = sink.open(spark, batches[0].schema, mode)
    for number, each in enumerate(batches):
        writer.write(each, batch(number, mode=mode))


def test_files_are_partitioned_by_it(spark, tmp_path):
    sink = FileSink(path=str(tmp_path / "out"), format="json", partition_by=(KEY,))

    written(spark, sink, rows(spark, (1, "x"), (2, "y")))

    found = {file.parent.name: json.loads(file.read_text()) for file in tmp_path.glob("out/batch=*/*/*.json")}
    assert found == {f"{KEY}=1": {VALUE: "x"}, f"{KEY}=2": {VALUE: "y"}}


def test_files_that_spark_writes_itself_are_partitioned_by_it(project):
    project.put("in/1.csv", "1,x\n2,y\n")

    project.run("""
        name: p
        sources:
          rows: {files: {path: in, format: csv, schema: "k int, v string"}}
        steps:
          renamed: SELECT k AS `a``key`, v FROM rows
        sinks:
          out: {from: renamed, files: {path: out, format: json, partition_by: ["a`key"]}}
        """)

    found = {file.parent.name: json.loads(file.read_text()) for file in project.folder.glob("out/*/*.json")}
    assert found == {f"{KEY}=1": {"v": "x"}, f"{KEY}=2": {"v": "y"}}


@pytest.mark.parametrize("mode", ["append", "update"])
def test_a_database_creates_writes_and_replaces_by_it(spark, tmp_path, mode):
    file = tmp_path / "a.db"
    key = {"key": (KEY,), "latest_by": VALUE} if mode == "update" else {}
    sink = JdbcSink(url=f"jdbc:sqlite:{file}", table="rows", create=True, **key)

    written(spark, sink, rows(spark, (1, "x")), rows(spark, (1, "z"), (2, "y")), mode=mode)

    with closing(sqlite3.connect(file)) as connection:
        found = connection.execute("SELECT * FROM rows ORDER BY 1, 2")
        assert [column[0] for column in found.description] == [KEY, VALUE]
        assert found.fetchall() == ([(1, "x"), (1, "z"), (2, "y")] if mode == "append" else [(1, "z"), (2, "y")])


def test_a_delta_table_is_partitioned_and_merged_by_it(spark, tmp_path):
    # Delta allows no blanks in names.
    value = "a.`value`"
    sink = DeltaSink(path=str(tmp_path / "table"), partition_by=(KEY,), key=(KEY,), latest_by=value)
    batches = (rows(spark, (1, "x")), rows(spark, (1, "z"), (2, "y")))

    written(spark, sink, *(each.withColumnRenamed(VALUE, value) for each in batches), mode="update")

    table = DeltaTable(tmp_path / "table").to_pyarrow_table()
    found = sorted(zip(table[KEY].to_pylist(), table[value].to_pylist(), strict=True))
    assert found == [(1, "z"), (2, "y")]


def test_a_kafka_record_has_it_in_its_json(spark):
    sink = KafkaSink(servers="nowhere:1", topic="t")

    (record,) = sink.records(rows(spark, (1, "x"))).collect()

    assert json.loads(record.value) == {KEY: 1, VALUE: "x"}


def test_a_lookup_joins_by_it_and_adds_it(spark):
    table = spark.createDataFrame(
        [(1, "one", "n"), (2, "two", "m")],
        StructType.fromDDL("`their``key` int, `their``name` string, `other.` string"),
    )
    streams = {"rows": rows(spark, (1, "x"), (3, "y")), "table": table}

    def look_up(**columns) -> DataFrame:
        on = {KEY: "their`key"}
        return LookupStep.model_validate({"from": "rows", "in": "table", "on": on, **columns}).build(spark, streams)

    assert look_up().columns == [KEY, VALUE, "their`name", "other."]
    named = look_up(columns={"new`name": "their`name"})
    assert named.columns == [KEY, VALUE, "new`name"]
    assert sorted(map(tuple, named.collect())) == [(1, "x", "one"), (3, "y", None)]


@pytest.mark.parametrize("bad_records", ["fail", "drop"])
@pytest.mark.parametrize(
    "decode",
    ['json: "`a``key` int, `v``.` string NOT NULL"', 'csv: "`a``key` int, `v``.` string"'],
    ids=["json", "csv"],
)
def test_a_declared_column_is_decoded(project, decode, bad_records):
    lines = ['{"a`key": 1, "v`.": "x"}'] if decode.startswith("json") else ["1,x"]
    if bad_records == "drop":
        lines.append('{"a`key": "no"}' if decode.startswith("json") else "no,y")
    project.put("in/1.txt", "\n".join(lines) + "\n")

    run = project.run(f"""
        name: p
        sources:
          rows: {{files: {{path: in}}, bad_records: {bad_records}, {decode}}}
        sinks:
          out: {{from: rows, memory: {{}}}}
        """)

    assert project.spark.table("out").columns == [KEY, "v`."]
    assert project.rows("out") == [(1, "x")]
    assert run.bad.get("rows", 0) == len(lines) - 1
