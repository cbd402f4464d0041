"""The columns that a row of a test may have, determined without Spark."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from penstock.checks import ddl
from penstock.connectors.files import FileSource
from penstock.model import Decode, Source
from penstock.testing.case import Given

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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


_HEADER = b"\x00\x00\x00\x00\x01"


@dataclass(frozen=True)
class Encoder:
    """Encodes the rows of one source as its system stores them."""

    source: Source
    spark: SparkSession

    def records(self, rows: Sequence[Given], names: Sequence[str], first: int) -> list[dict[str, Any]]:
        """The raw columns of each row; missing metadata gets fixed default values."""
        return [self._record(row, names, first + number) for number, row in enumerate(rows)]

    def value(self, row: Given) -> Any:
        """The value of a record as text or bytes."""
        if not isinstance(row, Mapping):
            return row
        if RAW in row:
            return row[RAW]
        decode = self.source.value
        if decode is None or decode.format not in STRUCTURED:
            return _as_text(row.get(self.source.connector.value_column or "value"))
        excluded = {RECORD, *(("key",) if self.source.key else ())}
        return encode_fields(decode, {name: value for name, value in row.items() if name not in excluded}, self.spark)

    def _record(self, row: Given, names: Sequence[str], number: int) -> dict[str, Any]:
        record: dict[str, Any] = {name: self._default(name, number) for name in names}
        value_column = self.source.connector.value_column
        if value_column is not None:
            record[value_column] = self.value(row)
        if not isinstance(row, Mapping):
            return record
        if not is_structured(self.source):
            excluded = (value_column, RECORD)
            record |= {name: value for name, value in row.items() if name not in excluded}
        if "key" in row and "key" in names:
            record["key"] = self._key(row["key"])
        return record | dict(row.get(RECORD) or {})

    def _key(self, key: Any) -> Any:
        decode = self.source.key
        if decode is not None and decode.format in STRUCTURED and isinstance(key, Mapping):
            return encode_fields(decode, key, self.spark)
        return _as_text(key)

    def _default(self, name: str, number: int) -> Any:
        fact = self.source.connector.record_facts(name, number)
        return self.source.name if fact is None and name == "topic" else fact


def encode_fields(decode: Decode, fields: Mapping[str, Any], spark: SparkSession) -> Any:
    """Encode fields in the format that `decode` reads."""
    if decode.format == "json":
        return json_text(fields)
    if decode.format == "csv":
        return csv_line(fields, column_names(decode.schema), decode.options)
    return _avro(decode, fields, spark)


def json_text(value: Any) -> str:
    """A value as JSON, with times and decimals as text."""
    return json.dumps(value, default=_plain, ensure_ascii=False)


def csv_line(fields: Mapping[str, Any], names: Sequence[str], options: Mapping[str, Any]) -> str:
    """A line with a cell for each column, formatted by Spark's CSV options."""
    separator = str(options.get("sep", options.get("delimiter", ",")))
    quote, escape = str(options.get("quote", '"')), str(options.get("escape", "\\"))
    null = str(options.get("nullValue", ""))

    def cell(name: str) -> str:
        value = fields.get(name)
        if value is None:
            return null
        text = _csv_text(value)
        if text and text == text.strip() and not any(mark in text for mark in (separator, quote, escape, "\n", "\r")):
            return text
        inside = text.replace(escape, escape * 2).replace(quote, escape + quote)
        return f"{quote}{inside}{quote}"

    return separator.join(cell(name) for name in names)


def to_json_value(value: Any, kind: Any) -> Any:
    """A raw column's value for JSON that Spark reads back as `kind`."""
    from pyspark.sql import types as T  # noqa: N812

    if value is None:
        return None
    if isinstance(kind, T.BinaryType):
        return base64.b64encode(value if isinstance(value, bytes) else str(_as_text(value)).encode()).decode()
    if isinstance(kind, T.ArrayType):
        items = [{"key": key, "value": each} for key, each in value.items()] if isinstance(value, Mapping) else value
        return [to_json_value(each, kind.elementType) for each in items]
    if isinstance(kind, T.StructType):
        return {field.name: to_json_value(value.get(field.name), field.dataType) for field in kind}
    return _as_text(value) if isinstance(kind, T.StringType) else value


def _avro(decode: Decode, fields: Mapping[str, Any], spark: SparkSession) -> bytes:
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.avro.functions import from_avro, to_avro

    # A record with one field is encoded exactly as the field, so every schema can be wrapped in a record.
    schema = json.dumps(
        {"type": "record", "name": "Given", "fields": [{"name": "record", "type": json.loads(decode.schema)}]}
    )
    one = spark.range(1)
    kind: Any = one.select(from_avro(F.lit(None).cast("binary"), schema).alias("row")).schema["row"].dataType
    value = fields if hasattr(kind["record"].dataType, "fields") else fields.get("value")
    row = F.from_json(F.lit(json_text({"record": value})), kind, {"mode": "FAILFAST"})
    found = one.select(to_avro(row, schema).alias("row")).collect()[0]["row"]
    return (_HEADER if decode.registry_header else b"") + bytes(found)


def _as_text(value: Any) -> Any:
    return json_text(value) if isinstance(value, Mapping | list) else value


def _csv_text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return json_text(value) if isinstance(value, Mapping | list) else str(_plain(value))


def _plain(value: Any) -> Any:
    if isinstance(value, datetime | date):
        return value.isoformat(" ") if isinstance(value, datetime) else value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value) if isinstance(value, Decimal) else value
