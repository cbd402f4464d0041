"""Decodes bytes and text into columns; a record that cannot be decoded is never a silent null.

    bad_records: drop    decode -> flag -> observe: count the flagged -> filter -> columns
    bad_records: fail    decode -> guard: raise where bad -> columns

A row whose event time is too far ahead of the clock is bad as well: it would move the watermark for good. The clock is
the time of the batch, which Spark logs with its offsets: a batch that is replayed decides the same.

Both keep Spark from pushing a filter of the user below the decoding, where it would decode a second time for it:
nothing is pushed through `observe`, nor through `inline` when it reads what `inline` returns.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from penstock.connectors.files import CORRUPT, FileSource
from penstock.engine.payload import STRUCTURED, Payload, parse_schema, short
from penstock.errors import CallError
from penstock.model import Source, Watermark
from penstock.options import seconds
from penstock.spark import column

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType


RECORD = "_record"
_BAD = "_bad"
_POSITION = "_penstock_position"
_POSITION_NAMES = ("topic", "partition", "offset")
_FIX = "correct it where it comes from, or set 'bad_records: drop' to count such records and continue"


def bad_records_metric(source: str) -> str:
    """The name under which a batch's report carries the source's bad records."""
    return f"bad_records:{source}"


def decode(source: Source, raw: DataFrame, *, counted: bool, ends: bool = False) -> DataFrame:
    """The columns that the rest of the pipeline sees; `counted` is off for engines without `observe`.

    `ends` is on for queries that read what is there in a few large batches.
    """
    value = Payload(source.connector.value_column or "value", source.value) if source.value else None
    key = Payload("key", source.key) if source.key else None
    if value is not None and value.decode.format in STRUCTURED:
        return _fields(source, raw, value, key, counted=counted, ends=ends)
    if CORRUPT in raw.columns or _required_columns(source):
        return _whole_rows(source, raw, counted=counted, ends=ends)
    return _plain(source, raw, [part for part in (value, key) if part], counted=counted, ends=ends)


def _fields(
    source: Source, raw: DataFrame, value: Payload, key: Payload | None, *, counted: bool, ends: bool
) -> DataFrame:
    """The fields of the decoded value, the decoded key, and `_record` when asked for."""
    from pyspark.sql import functions as F  # noqa: N812

    parts = [value, key] if key else [value]
    columns = [*(part.decode_column() for part in parts), *_record(source, raw), *_position(source, raw)]
    rows = raw.select(*columns, *(column(part.column) for part in parts))
    keys = [key.whole(rows)] if key else []
    if source.bad_records == "drop":
        flagged = rows.select(*value.inside(rows), *keys, *_record_names(source), _any_bad(rows, parts).alias(_BAD))
        return _drop_bad(source, flagged, counted=counted, ends=ends)
    guarded = _guard(source, rows, parts, value.record(rows))
    names, rest = value.fields(rows), [name for name in (RECORD, _POSITION) if name in rows.columns]
    others = [key.struct, *rest] if key else rest
    if counted:
        inlined = rows.select(F.inline(F.array(guarded)), *others)
        return _refuse_ahead(source, inlined.select(*(column(name) for name in names), *keys, *rest), ends=ends)
    rows = rows.select(guarded.alias(value.struct), *others)
    fields = (F.col(value.struct)[name].alias(name) for name in names)
    return _refuse_ahead(source, rows.select(*fields, *keys, *rest), ends=ends)


def _whole_rows(source: Source, raw: DataFrame, *, counted: bool, ends: bool) -> DataFrame:
    """Files that Spark parses itself: a record that it cannot parse arrives as `_corrupt_record`."""
    from pyspark.sql import functions as F  # noqa: N812

    visible = [column(name) for name in raw.columns if name != CORRUPT]
    bad = reduce(or_, (column(name).isNull() for name in _required_columns(source)), F.lit(False))
    shown = F.to_json(F.struct(*visible))
    if CORRUPT in raw.columns:
        # Spark parses only the columns that are asked for, and a record is bad whichever of them a step uses: so we
        # ask for all of them, in a comparison that is always true and that Spark cannot simplify.
        bad = (F.col(CORRUPT).isNotNull() & (shown != "-")) | bad
        shown = F.coalesce(F.col(CORRUPT), shown)
    columns = [*visible, bad.alias(_BAD), *_record(source, raw)]
    if source.bad_records == "drop":
        return _drop_bad(source, raw.select(*columns), counted=counted, ends=ends)
    rows = _count_bad(source, raw.select(*columns, shown.alias("_shown"), *_position(source, raw)), counted=counted)
    form = source.connector.format if isinstance(source.connector, FileSource) else source.connector.kind
    says = f" is not {form} of the declared schema: "
    error = _raise(source, rows, says, short(F.col("_shown")))
    good = F.when(F.col(_BAD), error.cast("boolean")).otherwise(F.lit(True))
    return _refuse_ahead(source, rows.where(good), ends=ends).select(*visible, *_record_names(source))


def _plain(source: Source, raw: DataFrame, parts: list[Payload], *, counted: bool, ends: bool) -> DataFrame:
    """The columns as the connector has them, the value and the key decoded if asked for."""
    from pyspark.sql import functions as F  # noqa: N812

    own = [column(name) for name in raw.columns]
    rows = raw.select(*own, *(part.decode_column() for part in parts), *_record(source, raw), *_position(source, raw))
    checked = [part for part in parts if part.decode.format != "bytes"]
    if source.bad_records == "fail":
        rows = rows.where(_guard(source, rows, checked, F.lit(True))) if checked else rows
        rows = _refuse_ahead(source, rows, ends=ends)
    elif checked or _find_time(source, rows.schema) is not None:
        rows = _drop_bad(source, rows.withColumn(_BAD, _any_bad(rows, checked)), counted=counted, ends=ends)
    by_column = {part.column: part for part in parts}
    visible = [by_column[name].whole(rows) if name in by_column else column(name) for name in raw.columns]
    return rows.select(*visible, *_record_names(source))


def _any_bad(rows: DataFrame, parts: list[Payload]) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return reduce(or_, (part.bad(rows) for part in parts if part.decode.format != "bytes"), F.lit(False))


def _drop_bad(source: Source, flagged: DataFrame, *, counted: bool, ends: bool) -> DataFrame:
    """Only the good rows; those that are too far ahead are bad as well."""
    from pyspark.sql import functions as F  # noqa: N812

    time = _find_time(source, flagged.schema)
    if time is not None:
        flagged = flagged.withColumn(_BAD, F.col(_BAD) | _is_ahead(source, time, ends=ends))
    return _count_bad(source, flagged, counted=counted).where(~F.col(_BAD)).drop(_BAD)


def _count_bad(source: Source, flagged: DataFrame, *, counted: bool) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    if not counted:
        return flagged
    return flagged.observe(bad_records_metric(source.name), F.count_if(F.col(_BAD)).alias("bad"))


def _refuse_ahead(source: Source, rows: DataFrame, *, ends: bool) -> DataFrame:
    """The rows, or an error where one is too far ahead."""
    from pyspark.sql import functions as F  # noqa: N812

    time = _find_time(source, rows.schema)
    if time is not None:
        fix = _FIX.replace(", or", ", raise 'max_ahead' of the watermark, or")
        error = _raise(source, rows, f" {_ahead_reason(source)}: ", time.cast("string"), fix)
        rows = rows.where(F.when(_is_ahead(source, time, ends=ends), error.cast("boolean")).otherwise(F.lit(True)))
    return rows.drop(_POSITION)


def _find_time(source: Source, schema: StructType, inside: Column | None = None) -> Column | None:
    """The event time, as a column or inside a struct; None if nothing limits how far ahead it is."""
    from pyspark.sql.types import StructType, TimestampType

    if source.static or source.watermark is None or not source.watermark.max_ahead:
        return None
    wanted = source.watermark.column.lower()
    field = next((field for field in schema if field.name.lower() == wanted), None)
    if field is None:
        return None
    time = column(field.name) if inside is None else inside[field.name]
    if isinstance(field.dataType, StructType) and "end" in field.dataType.names:
        # The time of a window is its end, as in Spark.
        return time["end"]
    return time if isinstance(field.dataType, TimestampType) else None


def _is_ahead(source: Source, time: Column, *, ends: bool = True) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    most = round(seconds(_watermark(source).max_ahead) * 1_000_000)
    now = F.unix_micros(F.current_timestamp())
    if ends:
        return F.coalesce(F.unix_micros(time) > now + most, F.lit(False))
    # The time of the batch is a constant of the generated code, so each batch would compile it again. For `transform`
    # Spark generates no code: it costs more for each row, and less for batches of fewer than some 50,000.
    latest = F.transform(F.array(now), lambda each: each + most)[0]
    return F.coalesce(F.unix_micros(time) > latest, F.lit(False))


def _ahead_reason(source: Source) -> str:
    mark = _watermark(source)
    return f"has a time in {mark.column!r} more than {mark.max_ahead} ahead of the clock"


def _watermark(source: Source) -> Watermark:
    assert source.watermark is not None
    return source.watermark


def _guard(source: Source, rows: DataFrame, parts: list[Payload], good: Column) -> Column:
    """`good`, or an error that names the record and the part of it that is bad."""
    from pyspark.sql import functions as F  # noqa: N812

    guarded = good
    for part in reversed([part for part in parts if part.decode.format != "bytes"]):
        says = f" has a key that is not {part.what}: " if part.column == "key" else f" is not {part.what}: "
        guarded = F.when(part.bad(rows), _raise(source, rows, says, part.show())).otherwise(guarded)
    return guarded


def _raise(source: Source, rows: DataFrame, says: str, shown: Column, fix: str = _FIX) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    where = F.lit("a record")
    if _POSITION in rows.columns:
        names = rows.select(f"{_POSITION}.*").columns
        words = "a record of %s" if names == ["file"] else f"the record at {', '.join(f'{name} %s' for name in names)}"
        where = F.format_string(words, *(F.col(f"{_POSITION}.{name}") for name in names))
    text = F.coalesce(shown, F.lit("it is empty"))
    return F.raise_error(F.concat(F.lit(f"source {source.name!r}: "), where, F.lit(says), text, F.lit(f"; {fix}")))


def _required_columns(source: Source) -> list[str]:
    """The columns of files that are declared NOT NULL, which Spark itself ignores."""
    ddl = source.connector.declared_schema
    return [field.name for field in parse_schema(ddl) if not field.nullable] if ddl else []


def _position(source: Source, raw: DataFrame) -> list[Column]:
    """Where each record comes from, for an error that names it."""
    from pyspark.sql import functions as F  # noqa: N812

    if source.bad_records == "drop":
        return []
    known = [column(name) for name in _POSITION_NAMES if name in raw.columns and "offset" in raw.columns]
    if isinstance(source.connector, FileSource):
        known = [F.regexp_replace(F.col("_metadata.file_path"), "^file:/+", "/").alias("file")]
    return [F.struct(*known).alias(_POSITION)] if known else []


def _record(source: Source, raw: DataFrame) -> list[Column]:
    """A record's own facts besides its value; for a row of a file, Spark's `_metadata`."""
    from pyspark.sql import functions as F  # noqa: N812

    if not source.metadata:
        return []
    if isinstance(source.connector, FileSource):
        return [F.col("_metadata").alias(RECORD)]
    return [F.struct(*(column(name) for name in raw.columns if name != source.connector.value_column)).alias(RECORD)]


def _record_names(source: Source) -> list[str]:
    return [RECORD] if source.metadata else []


_WHERE = ("topic", "partition", "offset", "timestamp")


def bad_records(source: Source, raw: DataFrame) -> DataFrame:
    """Only the bad records: their position, `reason` and `record`."""
    from pyspark.sql import functions as F  # noqa: N812

    where = [column(name) for name in _WHERE if name in raw.columns]
    parts = _parts(source)
    rows = raw.select(*map(column, raw.columns), *(part.decode_column() for part in parts))
    found = [(part.bad(rows), _describe(part), part.show()) for part in parts]
    if CORRUPT in raw.columns and not parts:
        found.append((_is_corrupt(rows), "not of the declared schema", short(F.col(CORRUPT))))
    value = next((part for part in parts if part.column != "key" and part.decode.format in STRUCTURED), None)
    schema = rows.select(*value.inside(rows)).schema if value else raw.schema
    time = _find_time(source, schema, value.record(rows) if value else None)
    if time is not None:
        found.append((_is_ahead(source, time), _ahead_reason(source), time.cast("string")))
    if not found:
        raise CallError(f"source {source.name!r} decodes nothing, so it has no bad records; choose another source")
    reason = F.coalesce(*(F.when(bad, F.lit(says)) for bad, says, _ in found))
    shown = F.coalesce(*(F.when(bad, shown) for bad, _, shown in found))
    return rows.select(*where, reason.alias("reason"), shown.alias("record")).where(F.col("reason").isNotNull())


def _parts(source: Source) -> list[Payload]:
    value = Payload(source.connector.value_column or "value", source.value) if source.value else None
    key = Payload("key", source.key) if source.key else None
    return [part for part in (value, key) if part is not None and part.decode.format != "bytes"]


def _describe(part: Payload) -> str:
    return f"the key is not {part.what}" if part.column == "key" else f"not {part.what}"


def _is_corrupt(raw: DataFrame) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    # Spark parses only the columns that are asked for: so all of them are asked for.
    visible = F.to_json(F.struct(*(column(name) for name in raw.columns if name != CORRUPT)))
    return F.col(CORRUPT).isNotNull() & (visible != "-")
