"""What a StructType becomes for a file is what Spark reads back as the same StructType."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import types as t

from penstock.pipeline import to_ddl


def test_spark_reads_the_ddl_of_a_struct_type_as_the_same_type(spark: SparkSession):
    inner = t.StructType([t.StructField("a`b", t.DecimalType(10, 2)), t.StructField("n", t.IntegerType(), False)])
    plain = [t.StringType(), t.BooleanType(), t.ByteType(), t.ShortType(), t.LongType(), t.FloatType(), t.DoubleType()]
    times = [t.DateType(), t.TimestampType(), t.TimestampNTZType(), t.DayTimeIntervalType(), t.YearMonthIntervalType()]
    nested = [t.ArrayType(inner), t.MapType(t.StringType(), inner), inner, t.BinaryType(), t.VariantType()]
    fields = [t.StructField(f"c {number}", each) for number, each in enumerate([*plain, *times, *nested])]
    schema = t.StructType([t.StructField("id", t.LongType(), nullable=False), *fields])

    assert t.StructType.fromDDL(to_ddl(schema)) == schema
