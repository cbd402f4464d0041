"""The Python API takes a StructType where a file has DDL."""

from __future__ import annotations

from pyspark.sql import types as t

from penstock import Pipeline, console, files, kafka
from penstock.checks.ddl import parse_columns
from penstock.pipeline import to_ddl

TRADE = t.StructType(
    [
        t.StructField("id", t.LongType(), nullable=False),
        t.StructField("paid at", t.TimestampType()),
        t.StructField("tags", t.ArrayType(t.StringType())),
        t.StructField("legs", t.MapType(t.StringType(), t.StructType([t.StructField("a`b", t.DecimalType(10, 2))]))),
        t.StructField("nested", t.StructType([t.StructField("n", t.IntegerType(), nullable=False)])),
    ]
)
DDL = (
    "id bigint NOT NULL, `paid at` timestamp, tags array<string>, legs map<string, struct<`a``b`: decimal(10,2)>>, "
    "nested struct<n: int NOT NULL>"
)


def test_a_struct_type_is_written_as_ddl_that_check_reads():
    assert to_ddl(TRADE) == DDL
    assert [column.name for column in parse_columns(DDL)] == ["id", "paid at", "tags", "legs", "nested"]


def test_a_struct_type_can_stand_wherever_columns_are_declared():
    pipeline = Pipeline("p")
    pipeline.source("a", kafka(servers="b:1", topics=["t"]), json=TRADE, key={"json": TRADE})
    pipeline.source("b", kafka(servers="b:1", topics=["t"]), value={"csv": TRADE})
    pipeline.source("c", files(path="in", format="json", schema=TRADE))
    for name in "abc":
        pipeline.sink(f"to_{name}", name, console())

    a, b, c = pipeline.freeze().sources

    assert (a.value.schema, a.key.schema, b.value.schema) == (DDL, DDL, DDL)
    assert c.connector.schema_ == DDL
    assert [finding for finding in pipeline.check() if finding.severity == "error"] == []
