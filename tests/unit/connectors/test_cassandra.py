"""What the Cassandra connector decides without a Cassandra."""

from __future__ import annotations

import pytest
from pydantic import ValidationError
from pyspark.sql import types as T  # noqa: N812

from penstock.connectors.cassandra import CassandraSink, CassandraSource
from penstock.connectors.cassandra._table import CqlType, cql_for
from penstock.cql import contact_points, quote


@pytest.mark.parametrize(
    ("cql", "spark"),
    [
        ("text", "string"),
        ("timeuuid", "string"),
        ("varint", "decimal(38,0)"),
        ("frozen<list<int>>", "array<int>"),
        ("map<text, frozen<set<bigint>>>", "map<string,array<bigint>>"),
        ("duration", None),
        ("list<duration>", None),
        ("address", None),
    ],
)
def test_a_cql_type_is_read_as_a_type_of_spark(cql: str, spark: str | None):
    assert CqlType.parse(cql).spark == spark


@pytest.mark.parametrize(
    ("cql", "kind", "fits"),
    [
        ("text", T.StringType(), True),
        ("uuid", T.StringType(), True),
        ("int", T.StringType(), False),
        ("bigint", T.IntegerType(), True),
        ("int", T.LongType(), False),
        ("varint", T.DecimalType(20, 0), True),
        ("varint", T.DecimalType(20, 2), False),
        ("decimal", T.DecimalType(20, 2), True),
        ("double", T.FloatType(), True),
        ("float", T.DoubleType(), False),
        ("timestamp", T.TimestampType(), True),
        ("timestamp", T.TimestampNTZType(), False),
        ("set<text>", T.ArrayType(T.StringType()), True),
        ("list<int>", T.ArrayType(T.StringType()), False),
        ("map<text, int>", T.MapType(T.StringType(), T.IntegerType()), True),
        ("frozen<address>", T.StructType([T.StructField("city", T.StringType())]), True),
        ("text", T.StructType([T.StructField("city", T.StringType())]), False),
    ],
)
def test_a_column_takes_only_what_it_can_hold(cql: str, kind: T.DataType, fits: bool):
    assert CqlType.parse(cql).takes(kind) is fits


def test_a_new_column_has_a_type_that_holds_everything():
    nested = T.MapType(T.StringType(), T.ArrayType(T.LongType()))

    assert cql_for(nested) == "frozen<map<text, frozen<list<bigint>>>>"
    assert CqlType.parse(str(cql_for(nested))).takes(nested)
    assert cql_for(T.StructType([T.StructField("a", T.LongType())])) is None


def test_hosts_have_the_usual_port_unless_they_say_another():
    assert contact_points("a, b:9043") == [("a", 9042), ("b", 9043)]
    assert quote('a"b') == '"a""b"'


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"create": True}, "'create' needs the key of the table; write 'create: {key: [column]}'"),
        (
            {"create": {"key": ["a"], "order": ["b down"]}},
            "'order' has 'b down'; write a column, or a column and 'desc'",
        ),
        ({"ttl": "10 milliseconds"}, "'ttl' is '10 milliseconds'; Cassandra counts in seconds, so at least '1 second'"),
        ({"nulls": "keep", "delete_when": "gone"}, "'nulls: keep' and 'delete_when' contradict each other"),
        ({"options": {"Spark.Cassandra.Output.IfNotExists": True}}, "which Penstock sets"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options: dict[str, object], says: str):
    with pytest.raises(ValidationError, match=r".*") as caught:
        CassandraSink(table="a.b", **options)

    assert says in str(caught.value)


def test_embedded_means_the_cassandra_of_this_machine():
    source = CassandraSource(table="a.b")

    assert source.services == ("cassandra",)
    there = source.with_service_address("cassandra", "127.0.0.1:9042")
    assert (there.hosts, there.services) == ("127.0.0.1:9042", ())


def test_a_password_is_not_shown():
    assert "hush" not in repr(CassandraSink(table="a.b", user="me", password="hush"))
