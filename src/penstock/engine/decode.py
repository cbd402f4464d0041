"""Bytes and text to columns; a record that cannot be decoded is never a silent null.

    bad_records: drop    decode -> flag -> observe: count the flagged -> filter -> columns
    bad_records: fail    decode -> guard: raise where bad -> columns

Both keep a condition of the user from sinking below the decoding, where Spark would evaluate the decoding a second
time for it: nothing sinks through `observe`, nor through `inline` when it reads what `inline` gives.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from penstock.connectors.files import CORRUPT
from penstock.model import Decode, Source

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

RECORD = "_record"
_BAD = "_bad"
_STRUCTURED = ("json", "csv", "avro")
_WHEREABOUTS = ("topic", "partition", "offset")
_SHOWN_CHARACTERS = 200


def bad_records_metric(source: str) -> str:
    """The name under which a batch's report carries the source's bad records."""
    return f"bad_records:{source}"


def decoded(source: Source, raw: DataFrame, *, counted: bool) -> DataFrame:
    """The columns that the rest of the pipeline sees; `counted` is off for engines that know no `observe`."""
    value = _Part(source.connector.value_column or "value", source.value) if source.value else None
    key = _Part("key", source.key) if source.key else None
    if value is not None and value.decode.format in _STRUCTURED:
        return _fields(source, raw, value, key, counted=counted)
    if CORRUPT in raw.columns:
        return _whole_rows(source, raw)
    return _plain(source, raw, value, key, counted=counted)


@dataclass(frozen=True)
class _Part:
    """The value or the key of a record, and how it is decoded."""

    column: str
    decode: Decode

    @property
    def struct(self) -> str:
        return f"_decoded_{self.column}"

    def decoded(self) -> Column:
        from pyspark.sql import functions as F  # noqa: N812

        column, how = F.col(self.column), self.decode
        if how.format == "bytes":
            return column.alias(self.struct)
        if how.format == "string":
            return column.cast("string").alias(self.struct)
        if how.format == "avro":
            return self._avro(column).alias(self.struct)
        options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT, **how.options}
        read = F.from_json if how.format == "json" else F.from_csv
        # Without NOT NULL: whether a required field is there is our check, one record at a time.
        fields = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in _schema(how.schema))
        return read(column.cast("string"), f"{fields}, {CORRUPT} string", options).alias(self.struct)

    def _avro(self, column: Column) -> Column:
        from pyspark.sql import functions as F  # noqa: N812
        from pyspark.sql.avro.functions import from_avro

        body = column
        if self.decode.registry_header:
            # A schema registry's header is a zero byte and four bytes of schema id.
            headed = F.substring(column, 1, 1) == F.lit(b"\x00")
            body = F.when(headed, F.substring(column, 6, 2**31 - 1))
        return from_avro(body, self.decode.schema, {"mode": "PERMISSIVE", **self.decode.options})

    def fields(self, rows: DataFrame) -> list[str]:
        """The names inside the decoded struct; none when it is text or bytes."""
        kind = rows.schema[self.struct].dataType
        return [name for name in getattr(kind, "names", []) if name != CORRUPT]

    def bad(self, rows: DataFrame) -> Column:
        """Whether the part cannot be decoded; only a key may be absent."""
        from pyspark.sql import functions as F  # noqa: N812

        value = F.col(self.struct)
        if self.decode.format == "avro":
            # Spark's decoder answers a bad record with a struct of nulls.
            reasons = [reduce(lambda all_, one: all_ & one, (value[name].isNull() for name in self.fields(rows)))]
        else:
            required = [field.name for field in _schema(self.decode.schema) if not field.nullable]
            reasons = [value[CORRUPT].isNotNull(), *(value[name].isNull() for name in required)]
        if self.column == "key":
            return value.isNotNull() & reduce(or_, reasons)
        return reduce(or_, reasons, value.isNull())


def _fields(source: Source, raw: DataFrame, value: _Part, key: _Part | None, *, counted: bool) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    fails = source.bad_records == "fail"
    extras = [part for part in (key and key.struct, RECORD if source.metadata else None) if part]
    columns = [value.decoded()]
    columns += [key.decoded()] if key else []
    columns += [_record(raw, value.column)] if source.metadata else []
    columns += [F.col(name) for name in (value.column, *_WHEREABOUTS) if fails and name in raw.columns]
    rows = raw.select(*columns)
    names = value.fields(rows)
    bad = _any_bad(rows, value, key)
    key_column = [_key_column(key, rows)] if key else []
    record = [F.col(RECORD)] if source.metadata else []
    if not fails:
        flagged = rows.select(*_inside(value, names), *key_column, *record, bad.alias(_BAD))
        return _counted(source, flagged, counted=counted).where(~F.col(_BAD)).drop(_BAD)
    guarded = F.when(bad, _raised(source, rows, value.column)).otherwise(F.col(value.struct))
    if counted:
        visible = [F.col(f"`{name}`") for name in names]
        return rows.select(F.inline(F.array(guarded)), *extras).select(*visible, *key_column, *record)
    guarded_rows = rows.select(guarded.alias(value.struct), *extras)
    return guarded_rows.select(*_inside(value, names), *key_column, *record)


def _whole_rows(source: Source, raw: DataFrame) -> DataFrame:
    """Files that Spark parses itself: it hands a record that it cannot parse over as `_corrupt_record`."""
    from pyspark.sql import functions as F  # noqa: N812

    visible = [_quoted(name) for name in raw.columns if name != CORRUPT]
    columns = [*visible, F.col(CORRUPT), F.col(CORRUPT).isNotNull().alias(_BAD)]
    columns += [F.col("_metadata").alias(RECORD)] if source.metadata else []
    columns += [F.col("_metadata.file_path").alias("_file")] if source.bad_records == "fail" else []
    rows = _counted(source, raw.select(*columns), counted=True)
    good = ~F.col(_BAD)
    if source.bad_records == "fail":
        good = F.when(F.col(_BAD), _raised(source, rows, CORRUPT).cast("boolean")).otherwise(F.lit(True))
    return rows.where(good).select(*visible, *([F.col(RECORD)] if source.metadata else []))


def _plain(source: Source, raw: DataFrame, value: _Part | None, key: _Part | None, *, counted: bool) -> DataFrame:
    """The columns as the connector has them, the value and the key as text if asked for."""
    from pyspark.sql import functions as F  # noqa: N812

    parts = {part.column: part for part in (value, key) if part}
    columns = [_quoted(name) for name in raw.columns]
    columns += [part.decoded() for part in parts.values()]
    columns += [_record(raw, source.connector.value_column or "")] if source.metadata else []
    rows = raw.select(*columns)
    if key is not None and key.decode.format in _STRUCTURED:
        bad = key.bad(rows)
        if source.bad_records == "drop":
            rows = _counted(source, rows.withColumn(_BAD, bad), counted=counted).where(~F.col(_BAD))
        else:
            rows = rows.where(F.when(bad, _raised(source, rows, "key").cast("boolean")).otherwise(F.lit(True)))
    visible = [_key_column(parts[name], rows) if name in parts else _quoted(name) for name in raw.columns]
    return rows.select(*visible, *([F.col(RECORD)] if source.metadata else []))


def _any_bad(rows: DataFrame, value: _Part, key: _Part | None) -> Column:
    bad = value.bad(rows)
    return bad | key.bad(rows) if key is not None and key.decode.format in _STRUCTURED else bad


def _counted(source: Source, flagged: DataFrame, *, counted: bool) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    if not counted:
        return flagged
    return flagged.observe(bad_records_metric(source.name), F.count_if(F.col(_BAD)).alias("bad"))


def _raised(source: Source, rows: DataFrame, shown: str) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    where = F.lit("a record")
    if "offset" in rows.columns:
        where = F.format_string("the record at topic %s, partition %d, offset %d", *_WHEREABOUTS)
    elif "_file" in rows.columns:
        where = F.concat(F.lit("a record of "), F.col("_file"))
    format_ = source.value.format if source.value else getattr(source.connector, "format", "a record")
    text = F.coalesce(F.substring(F.col(shown).cast("string"), 1, _SHOWN_CHARACTERS), F.lit("it is empty"))
    fix = "; correct it where it comes from, or set 'bad_records: drop' to count such records and go on"
    says = F.lit(f" is not {format_} of the declared schema: ")
    return F.raise_error(F.concat(F.lit(f"source {source.name!r}: "), where, says, text, F.lit(fix)))


def _inside(part: _Part, names: list[str]) -> list[Column]:
    return [_quoted(f"{part.struct}`.`{name}").alias(name) for name in names]


def _key_column(part: _Part, rows: DataFrame) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    names = part.fields(rows)
    if not names:
        return F.col(part.struct).alias(part.column)
    return F.when(F.col(part.struct).isNotNull(), F.struct(*_inside(part, names))).alias(part.column)


def _record(raw: DataFrame, value_name: str) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.struct(*(_quoted(name) for name in raw.columns if name != value_name)).alias(RECORD)


def _schema(ddl: str) -> Any:
    from pyspark.sql.types import StructType

    return StructType.fromDDL(ddl)


def _quoted(name: str) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.col(f"`{name}`")
