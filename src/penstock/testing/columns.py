"""The columns that a given row may have, known without Spark."""

from __future__ import annotations

import json

from penstock.checks import ddl
from penstock.connectors.files import FileSource
from penstock.model import Source

#: Keys of a given row that are no column: the record's own facts, and the raw text in place of fields.
RECORD, RAW = "_record", "_value"
STRUCTURED = ("json", "csv", "avro")

_KAFKA = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
_EVENTHUBS = (
    "body",
    "partition",
    "offset",
    "sequenceNumber",
    "enqueuedTime",
    "publisher",
    "partitionKey",
    "properties",
)
_RAW = {"kafka": _KAFKA, "eventhubs": _EVENTHUBS, "rate": ("timestamp", "value"), "socket": ("value", "timestamp")}


def is_structured(source: Source) -> bool:
    """Whether the value of a record holds fields."""
    return source.value is not None and source.value.format in STRUCTURED


def takes_text(source: Source) -> bool:
    """Whether a row can be given as the raw text of a record."""
    if isinstance(source.connector, FileSource):
        return source.connector.format in ("text", "json", "csv")
    return source.connector.value_column is not None


def known(source: Source) -> tuple[str, ...] | None:
    """The columns of a given row; None when only Spark can tell."""
    try:
        columns = _fields(source) if is_structured(source) else _raw(source)
    except (ddl.DdlError, ValueError):
        return None
    if columns is None:
        return None
    own = (RECORD, RAW) if is_structured(source) else (RECORD,)
    key = ("key",) if source.key and is_structured(source) else ()
    return (*columns, *key, *own)


def declared(text: str) -> tuple[str, ...]:
    """The names of `name type, name type`."""
    return tuple(column.name for column in ddl.columns(text))


def _fields(source: Source) -> tuple[str, ...] | None:
    if source.value is None:
        return None
    if source.value.format != "avro":
        return declared(source.value.schema)
    schema = json.loads(source.value.schema)
    fields = schema.get("fields") if isinstance(schema, dict) else None
    return tuple(field["name"] for field in fields) if fields else ("value",)


def _raw(source: Source) -> tuple[str, ...] | None:
    connector = source.connector
    if isinstance(connector, FileSource):
        return declared(connector.schema_) if connector.schema_ else ("value",) if connector.format == "text" else None
    schema = getattr(connector, "schema_", None)
    return declared(schema) if schema else _RAW.get(connector.kind)
