"""The columns that a row of a test may have, determined without Spark."""

from __future__ import annotations

import json

from penstock.checks import ddl
from penstock.connectors.files import FileSource
from penstock.model import Source

#: Keys of a given row that are not columns: the record's metadata, and the raw text instead of fields.
RECORD, RAW = "_record", "_value"
STRUCTURED = ("json", "csv", "avro")


def is_structured(source: Source) -> bool:
    """Whether a record's value has fields."""
    return source.value is not None and source.value.format in STRUCTURED


def takes_text(source: Source) -> bool:
    """Whether a row can be given as the raw text of a record."""
    if isinstance(source.connector, FileSource):
        return source.connector.format in ("text", "json", "csv")
    return source.connector.value_column is not None


def row_columns(source: Source) -> tuple[str, ...] | None:
    """The columns of a given row; None if only Spark knows them."""
    try:
        columns = _fields(source) if is_structured(source) else _raw(source)
    except (ddl.DdlError, ValueError):
        return None
    if columns is None:
        return None
    own = (RECORD, RAW) if is_structured(source) else (RECORD,)
    key = ("key",) if source.key and is_structured(source) else ()
    return (*columns, *key, *own)


def column_names(text: str) -> tuple[str, ...]:
    """The column names of `name type, name type`."""
    return tuple(column.name for column in ddl.parse_columns(text))


def _fields(source: Source) -> tuple[str, ...] | None:
    if source.value is None:
        return None
    if source.value.format != "avro":
        return column_names(source.value.schema)
    schema = json.loads(source.value.schema)
    fields = schema.get("fields") if isinstance(schema, dict) else None
    return tuple(field["name"] for field in fields) if fields else ("value",)


def _raw(source: Source) -> tuple[str, ...] | None:
    connector = source.connector
    if isinstance(connector, FileSource):
        return (
            column_names(connector.schema_) if connector.schema_ else ("value",) if connector.format == "text" else None
        )
    schema = connector.declared_schema or connector.spark_columns
    return column_names(schema) if schema else None
