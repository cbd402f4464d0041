"""A join that reads only the keys of the batch from the table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import cql
from penstock.connector import LookupRequest
from penstock.connectors.cassandra._table import Access, Table, require_readable
from penstock.errors import BuildError
from penstock.options import quote
from penstock.spark.columns import column
from penstock.text import did_you_mean

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_FOUND = "_penstock_found"


def join_by_key(rows: DataFrame, access: Access, table: Table, schema: str | None, lookup: LookupRequest) -> DataFrame:
    """The rows with the requested columns; a row without a match is dropped or has nulls."""
    from pyspark.sql import functions as F  # noqa: N812

    declared = _columns(table, schema)
    _require_key(rows, table, lookup)
    added = _added_columns(table, declared, lookup)
    found = _reader(rows, access, table, added, lookup)
    keys = F.struct(*(column(ours).alias(theirs) for ours, theirs in lookup.on.items()))
    rows = rows.withColumn(_FOUND, found(keys))
    own = [column(name) for name in rows.columns if name != _FOUND]
    spread = F.inline if lookup.kind == "inner" else F.inline_outer
    return rows.select(*own, spread(_FOUND))


def _reader(rows: DataFrame, access: Access, table: Table, added: StructType, lookup: LookupRequest) -> Any:
    """A UDF from a column of keys to the rows of each key."""
    from pyspark.sql.pandas.functions import arrow_udf
    from pyspark.sql.pandas.types import to_arrow_type
    from pyspark.sql.types import ArrayType

    from penstock.connectors.cassandra import _keys as cassandra_keys

    keyspace, _, name = table.name.partition(".")
    names = [lookup.columns.get(field.name, field.name) for field in added]
    columns = ", ".join(cql.quote(each) for each in names)
    where = " AND ".join(f"{cql.quote(theirs)} = ?" for theirs in lookup.on.values())
    text = f"SELECT {columns} FROM {cql.quote(keyspace)}.{cql.quote(name)} WHERE {where}"  # noqa: S608
    kinds = tuple(table.type(theirs).name for theirs in lookup.on.values())
    statement = cassandra_keys.build_statement(access, text, kinds, lookup.concurrency)
    kind = ArrayType(added)
    zone = rows.sparkSession.conf.get("spark.sql.session.timeZone")
    arrow = to_arrow_type(kind, timezone=zone)
    reader = cassandra_keys.KeyReader(statement, tuple(added.names), arrow, lookup.cache_seconds)
    make: Any = arrow_udf
    function = make(cassandra_keys.to_udf(reader), returnType=kind)
    # The table may change: Spark must not call it twice, nor before filters.
    return function.asNondeterministic()


def _columns(table: Table, schema: str | None) -> StructType:
    from pyspark.sql.types import StructType

    if schema is not None:
        declared: Any = StructType.fromDDL(schema)
        require_readable(table, declared)
        return declared  # type: ignore[no-any-return]
    made: Any = StructType.fromDDL(", ".join(f"{quote(name)} {table.type(name).spark}" for name in table.readable))
    return made  # type: ignore[no-any-return]


def _added_columns(table: Table, declared: StructType, lookup: LookupRequest) -> StructType:
    """The columns to add to the rows, with their new names."""
    from pyspark.sql.types import StructField, StructType

    columns = lookup.columns or {name: name for name in declared.names if name not in lookup.on.values()}
    unknown = [theirs for theirs in columns.values() if theirs not in declared.names]
    if unknown:
        raise BuildError(
            f"table {table.name} has no column {unknown[0]!r} to add; {did_you_mean(unknown[0], declared.names)}"
        )
    if not columns:
        raise BuildError(f"table {table.name} has nothing to add besides its key; name 'columns'")
    return StructType([StructField(ours, declared[theirs].dataType) for ours, theirs in columns.items()])


def _require_key(rows: DataFrame, table: Table, lookup: LookupRequest) -> None:
    theirs = list(lookup.on.values())
    first = table.key[: max(len(theirs), len(table.partition_key))]
    if set(theirs) != set(first):
        key = ", ".join(table.key)
        fix = f"use its partition key ({', '.join(table.partition_key)}), then more of the key from the left"
        raise BuildError(f"'on' is {', '.join(theirs)}, and rows of {table.name} are found by ({key}); {fix}")
    for ours, name in lookup.on.items():
        kind = rows.schema[ours].dataType
        if not table.type(name).takes(kind):
            says = f"{ours!r} is {kind.simpleString()}, and {name!r} of {table.name} is {table.columns[name]}"
            raise BuildError(f"{says}; write CAST({ours} AS {table.type(name).spark}) AS {ours}")
