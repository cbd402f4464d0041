"""Decodes bytes and text into columns; a record that cannot be decoded is never a silent null.

    bad_records: drop    decode -> flag -> observe: count the flagged -> filter -> columns
    bad_records: fail    decode -> guard: raise where bad -> columns

A row whose event time is too far ahead of the clock is bad as well: it would move the watermark for good. The clock is
the time of the batch, which Spark logs with its offsets: a batch that is replayed decides the same.

Both keep Spark from pushing a filter of the user below the decoding, where it would decode a second time for it:
nothing is pushed through `observe`, nor through `inline` when it reads what `inline` returns.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from penstock.connectors.files import CORRUPT, FileSource
from penstock.engine.payload import STRUCTURED, Payload, parse_schema, short
from penstock.errors import CallError
from penstock.model import Source, Watermark
from penstock.options import seconds
from penstock.spark.columns import column

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


RECORD = "_record"
_BAD = "_bad"
_FILE = "_file"
_POSITION = ("topic", "partition", "offset")
_FIX = "correct it where it comes from, or set 'bad_records: drop' to count such records and continue"


def bad_records_metric(source: str) -> str:
    """The name under which a batch's report carries the source's bad records."""
    return f"bad_records:{source}"


def decode(source: Source, raw: DataFrame, *, counted: bool) -> DataFrame:
    """The columns that the rest of the pipeline sees; `counted` is off for engines without `observe`."""
    value = Payload(source.connector.value_column or "value", source.value) if source.value else None
    key = Payload("key", source.key) if source.key else None
    if value is not None and value.decode.format in STRUCTURED:
        return _fields(source, raw, value, key, counted=counted)
    if CORRUPT in raw.columns or _required_columns(source):
        return _whole_rows(source, raw, counted=counted)
    return _plain(source, raw, [part for part in (value, key) if part], counted=counted)


def _fields(source: Source, raw: DataFrame, value: Payload, key: Payload | None, *, counted: bool) -> DataFrame:
    """The fields of the decoded value, the decoded key, and `_record` when asked for."""
    from pyspark.sql import functions as F  # noqa: N812

    parts = [value, key] if key else [value]
    where = [column(name) for name in _POSITION if name in raw.columns]
    columns = [*(part.decode_column() for part in parts), *_record(source, raw), *_file(source)]
    rows = raw.select(*columns, *(column(part.column) for part in parts), *where)
    others = [key.struct, *_record_names(source)] if key else _record_names(source)
    keys = [key.whole(rows)] if key else []
    visible = [*value.inside(rows), *keys, *map(column, _record_names(source))]
    time = _find_time(source, rows, visible)
    if source.bad_records == "drop":
        flagged = rows.select(*visible, _any_bad(source, rows, parts, time).alias(_BAD))
        return _count_bad(source, flagged, counted=counted).where(~F.col(_BAD)).drop(_BAD)
    guarded = _guard(source, rows, parts, value.record(rows), time)
    names = value.fields(rows)
    if counted:
        inlined = rows.select(F.inline(F.array(guarded)), *others)
        return inlined.select(*(column(name) for name in names), *keys, *_record_names(source))
    rows = rows.select(guarded.alias(value.struct), *others)
    return rows.select(*(F.col(value.struct)[name].alias(name) for name in names), *keys, *_record_names(source))


def _whole_rows(source: Source, raw: DataFrame, *, counted: bool) -> DataFrame:
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
    time = _find_time(source, raw, visible)
    drops = source.bad_records == "drop"
    flag = bad | _is_ahead(source, time) if drops and time is not None else bad
    columns = [*visible, flag.alias(_BAD), *_record(source, raw)]
    if drops:
        rows = _count_bad(source, raw.select(*columns), counted=counted)
        return rows.where(~F.col(_BAD)).drop(_BAD)
    rows = _count_bad(source, raw.select(*columns, shown.alias("_shown"), *_file(source)), counted=counted)
    form = source.connector.format if isinstance(source.connector, FileSource) else source.connector.kind
    says = f" is not {form} of the declared schema: "
    error = _raise(source, rows, says, short(F.col("_shown")))
    good = F.when(F.col(_BAD), error.cast("boolean")).otherwise(_guard(source, rows, [], F.lit(True), time))
    return rows.where(good).select(*visible, *_record_names(source))


def _plain(source: Source, raw: DataFrame, parts: list[Payload], *, counted: bool) -> DataFrame:
    """The columns as the connector has them, the value and the key decoded if asked for."""
    from pyspark.sql import functions as F  # noqa: N812

    own = [column(name) for name in raw.columns]
    rows = raw.select(*own, *(part.decode_column() for part in parts), *_record(source, raw), *_file(source))
    checked = [part for part in parts if part.decode.format != "bytes"]
    time = _find_time(source, rows, [*own, *map(column, _record_names(source))])
    if source.bad_records == "drop" and (checked or time is not None):
        flagged = rows.withColumn(_BAD, _any_bad(source, rows, checked, time))
        rows = _count_bad(source, flagged, counted=counted).where(~F.col(_BAD))
    elif checked or time is not None:
        rows = rows.where(_guard(source, rows, checked, F.lit(True), time))
    by_column = {part.column: part for part in parts}
    visible = [by_column[name].whole(rows) if name in by_column else column(name) for name in raw.columns]
    return rows.select(*visible, *_record_names(source))


def _any_bad(source: Source, rows: DataFrame, parts: list[Payload], time: Column | None) -> Column:
    ahead = [_is_ahead(source, time)] if time is not None else []
    return reduce(or_, [*(part.bad(rows) for part in parts if part.decode.format != "bytes"), *ahead])


def _find_time(source: Source, rows: DataFrame, visible: Sequence[Column]) -> Column | None:
    """The event time among the visible columns; None if nothing limits how far ahead it is."""
    from pyspark.sql.types import StructType, TimestampType

    if source.static or source.watermark is None or not source.watermark.max_ahead:
        return None
    for found, field in zip(visible, rows.select(*visible).schema, strict=True):
        if field.name.lower() == source.watermark.column.lower():
            if isinstance(field.dataType, StructType) and "end" in field.dataType.names:
                # The time of a window is its end, as in Spark.
                return found["end"]
            return found if isinstance(field.dataType, TimestampType) else None
    return None


def _is_ahead(source: Source, time: Column) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    latest = F.unix_micros(F.current_timestamp()) + round(seconds(_watermark(source).max_ahead) * 1_000_000)
    # In `exists`, for which Spark generates no code: elsewhere the time of the batch would be a constant of the code,
    # and each batch would compile it again.
    return F.exists(F.array(F.unix_micros(time)), lambda micros: F.coalesce(micros > latest, F.lit(False)))


def _ahead_reason(source: Source) -> str:
    mark = _watermark(source)
    return f"has a time in {mark.column!r} more than {mark.max_ahead} ahead of the clock"


def _watermark(source: Source) -> Watermark:
    assert source.watermark is not None
    return source.watermark


def _count_bad(source: Source, flagged: DataFrame, *, counted: bool) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    if not counted:
        return flagged
    return flagged.observe(bad_records_metric(source.name), F.count_if(F.col(_BAD)).alias("bad"))


def _guard(source: Source, rows: DataFrame, parts: list[Payload], good: Column, time: Column | None) -> Column:
    """`good`, or an error that names the record and the part of it that is bad."""
    from pyspark.sql import functions as F  # noqa: N812

    guarded = good
    if time is not None:
        fix = _FIX.replace(", or", ", raise 'max_ahead' of the watermark, or")
        error = _raise(source, rows, f" {_ahead_reason(source)}: ", time.cast("string"), fix)
        guarded = F.when(_is_ahead(source, time), error).otherwise(guarded)
    for part in reversed([part for part in parts if part.decode.format != "bytes"]):
        says = f" has a key that is not {part.what}: " if part.column == "key" else f" is not {part.what}: "
        guarded = F.when(part.bad(rows), _raise(source, rows, says, part.show())).otherwise(guarded)
    return guarded


def _raise(source: Source, rows: DataFrame, says: str, shown: Column, fix: str = _FIX) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    where = F.lit("a record")
    if "offset" in rows.columns:
        known = [name for name in _POSITION if name in rows.columns]
        where = F.format_string(f"the record at {', '.join(f'{name} %s' for name in known)}", *known)
    elif _FILE in rows.columns:
        where = F.concat(F.lit("a record of "), F.col(_FILE))
    text = F.coalesce(shown, F.lit("it is empty"))
    return F.raise_error(F.concat(F.lit(f"source {source.name!r}: "), where, F.lit(says), text, F.lit(f"; {fix}")))


def _required_columns(source: Source) -> list[str]:
    """The columns of files that are declared NOT NULL, which Spark itself ignores."""
    ddl = source.connector.declared_schema
    return [field.name for field in parse_schema(ddl) if not field.nullable] if ddl else []


def _file(source: Source) -> list[Column]:
    from pyspark.sql import functions as F  # noqa: N812

    fails = isinstance(source.connector, FileSource) and source.bad_records == "fail"
    return [F.regexp_replace(F.col("_metadata.file_path"), "^file:/+", "/").alias(_FILE)] if fails else []


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
    time = _find_time(source, rows, value.inside(rows) if value else [column(name) for name in raw.columns])
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
