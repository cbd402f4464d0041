"""Bytes and text to columns; a record that cannot be decoded is never a silent null.

    bad_records: drop    decode -> flag -> observe: count the flagged -> filter -> columns
    bad_records: fail    decode -> guard: raise where bad -> columns

Both keep a condition of the user from sinking below the decoding, where Spark would evaluate the decoding a second
time for it: nothing sinks through `observe`, nor through `inline` when it reads what `inline` gives.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from penstock.connectors.files import CORRUPT, FileSource
from penstock.engine.payload import STRUCTURED, Payload, declared, short
from penstock.errors import CallError
from penstock.model import Source
from penstock.spark.columns import column

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


RECORD = "_record"
_BAD = "_bad"
_FILE = "_file"
_WHEREABOUTS = ("topic", "partition", "offset")


def bad_records_metric(source: str) -> str:
    """The name under which a batch's report carries the source's bad records."""
    return f"bad_records:{source}"


def decode(source: Source, raw: DataFrame, *, counted: bool) -> DataFrame:
    """The columns that the rest of the pipeline sees; `counted` is off for engines that know no `observe`."""
    value = Payload(source.connector.value_column or "value", source.value) if source.value else None
    key = Payload("key", source.key) if source.key else None
    if value is not None and value.decode.format in STRUCTURED:
        return _fields(source, raw, value, key, counted=counted)
    if CORRUPT in raw.columns or _required(source):
        return _whole_rows(source, raw, counted=counted)
    return _plain(source, raw, [part for part in (value, key) if part], counted=counted)


def _fields(source: Source, raw: DataFrame, value: Payload, key: Payload | None, *, counted: bool) -> DataFrame:
    """The fields of the decoded value, the decoded key, and `_record` when asked for."""
    from pyspark.sql import functions as F  # noqa: N812

    parts = [value, key] if key else [value]
    where = [column(name) for name in _WHEREABOUTS if name in raw.columns]
    columns = [*(part.decoded() for part in parts), *_record(source, raw), *_file(source)]
    rows = raw.select(*columns, *(column(part.column) for part in parts), *where)
    beside = [key.struct, *_kept(source)] if key else _kept(source)
    keys = [key.whole(rows)] if key else []
    if source.bad_records == "drop":
        flagged = rows.select(*value.inside(rows), *keys, *_kept(source), _any_bad(rows, parts).alias(_BAD))
        return _counted(source, flagged, counted=counted).where(~F.col(_BAD)).drop(_BAD)
    guarded = _guarded(source, rows, parts, value.record(rows))
    names = value.fields(rows)
    if counted:
        inlined = rows.select(F.inline(F.array(guarded)), *beside)
        return inlined.select(*(column(name) for name in names), *keys, *_kept(source))
    rows = rows.select(guarded.alias(value.struct), *beside)
    return rows.select(*(F.col(value.struct)[name].alias(name) for name in names), *keys, *_kept(source))


def _whole_rows(source: Source, raw: DataFrame, *, counted: bool) -> DataFrame:
    """Files that Spark parses itself: it hands a record that it cannot parse over as `_corrupt_record`."""
    from pyspark.sql import functions as F  # noqa: N812

    visible = [column(name) for name in raw.columns if name != CORRUPT]
    bad = reduce(or_, (column(name).isNull() for name in _required(source)), F.lit(False))
    shown = F.to_json(F.struct(*visible))
    if CORRUPT in raw.columns:
        # Spark parses only the columns that are asked for, and a record is bad whichever of them a step uses: so we
        # ask for all of them, in a comparison that is always true and that Spark does not see through.
        bad = (F.col(CORRUPT).isNotNull() & (shown != "-")) | bad
        shown = F.coalesce(F.col(CORRUPT), shown)
    columns = [*visible, bad.alias(_BAD), *_record(source, raw)]
    if source.bad_records == "drop":
        rows = _counted(source, raw.select(*columns), counted=counted)
        return rows.where(~F.col(_BAD)).drop(_BAD)
    rows = _counted(source, raw.select(*columns, shown.alias("_shown"), *_file(source)), counted=counted)
    says = f" is not {source.connector.kind if not isinstance(source.connector, FileSource) else source.connector.format} of the declared schema: "
    raised = _raised(source, rows, says, short(F.col("_shown")))
    good = F.when(F.col(_BAD), raised.cast("boolean")).otherwise(F.lit(True))
    return rows.where(good).select(*visible, *_kept(source))


def _plain(source: Source, raw: DataFrame, parts: list[Payload], *, counted: bool) -> DataFrame:
    """The columns as the connector has them, the value and the key decoded if asked for."""
    from pyspark.sql import functions as F  # noqa: N812

    own = [column(name) for name in raw.columns]
    rows = raw.select(*own, *(part.decoded() for part in parts), *_record(source, raw), *_file(source))
    checked = [part for part in parts if part.decode.format != "bytes"]
    if checked and source.bad_records == "drop":
        flagged = rows.withColumn(_BAD, _any_bad(rows, checked))
        rows = _counted(source, flagged, counted=counted).where(~F.col(_BAD))
    elif checked:
        rows = rows.where(_guarded(source, rows, checked, F.lit(True)))
    by_column = {part.column: part for part in parts}
    visible = [by_column[name].whole(rows) if name in by_column else column(name) for name in raw.columns]
    return rows.select(*visible, *_kept(source))


def _any_bad(rows: DataFrame, parts: list[Payload]) -> Column:
    return reduce(or_, (part.bad(rows) for part in parts if part.decode.format != "bytes"))


def _counted(source: Source, flagged: DataFrame, *, counted: bool) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    if not counted:
        return flagged
    return flagged.observe(bad_records_metric(source.name), F.count_if(F.col(_BAD)).alias("bad"))


def _guarded(source: Source, rows: DataFrame, parts: list[Payload], good: Column) -> Column:
    """`good`, or an error that names the record and the part of it that is bad."""
    from pyspark.sql import functions as F  # noqa: N812

    guarded = good
    for part in reversed([part for part in parts if part.decode.format != "bytes"]):
        says = f" has a key that is not {part.what}: " if part.column == "key" else f" is not {part.what}: "
        guarded = F.when(part.bad(rows), _raised(source, rows, says, part.shown())).otherwise(guarded)
    return guarded


def _raised(source: Source, rows: DataFrame, says: str, shown: Column) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    where = F.lit("a record")
    if "offset" in rows.columns:
        known = [name for name in _WHEREABOUTS if name in rows.columns]
        where = F.format_string(f"the record at {', '.join(f'{name} %s' for name in known)}", *known)
    elif _FILE in rows.columns:
        where = F.concat(F.lit("a record of "), F.col(_FILE))
    fix = "; correct it where it comes from, or set 'bad_records: drop' to count such records and go on"
    text = F.coalesce(shown, F.lit("it is empty"))
    return F.raise_error(F.concat(F.lit(f"source {source.name!r}: "), where, F.lit(says), text, F.lit(fix)))


def _required(source: Source) -> list[str]:
    """The columns of files that are declared NOT NULL, which Spark itself takes no notice of."""
    ddl = source.connector.declared_schema
    return [field.name for field in declared(ddl) if not field.nullable] if ddl else []


def _file(source: Source) -> list[Column]:
    from pyspark.sql import functions as F  # noqa: N812

    fails = isinstance(source.connector, FileSource) and source.bad_records == "fail"
    return [F.regexp_replace(F.col("_metadata.file_path"), "^file:/+", "/").alias(_FILE)] if fails else []


def _record(source: Source, raw: DataFrame) -> list[Column]:
    """What is known about a record besides its value: of a file's row, Spark's `_metadata`."""
    from pyspark.sql import functions as F  # noqa: N812

    if not source.metadata:
        return []
    if isinstance(source.connector, FileSource):
        return [F.col("_metadata").alias(RECORD)]
    return [F.struct(*(column(name) for name in raw.columns if name != source.connector.value_column)).alias(RECORD)]


def _kept(source: Source) -> list[str]:
    return [RECORD] if source.metadata else []


_WHERE = ("topic", "partition", "offset", "timestamp")


def bad_records(source: Source, raw: DataFrame) -> DataFrame:
    """Only the bad ones: their place, `reason` and `record`."""
    from pyspark.sql import functions as F  # noqa: N812

    where = [column(name) for name in _WHERE if name in raw.columns]
    parts = _parts(source)
    if parts:
        rows = raw.select(*where, *(column(part.column) for part in parts), *(part.decoded() for part in parts))
        reason = F.coalesce(*(F.when(part.bad(rows), F.lit(_says(part))) for part in parts))
        shown = F.coalesce(*(F.when(part.bad(rows), part.shown()) for part in parts))
        found = rows.select(*where, reason.alias("reason"), shown.alias("record"))
        return found.where(F.col("reason").isNotNull())
    if CORRUPT not in raw.columns:
        raise CallError(f"source {source.name!r} decodes nothing, so it has no bad records; choose another source")
    return raw.where(_is_corrupt(raw)).select(
        F.lit("not of the declared schema").alias("reason"), short(F.col(CORRUPT)).alias("record")
    )


def _parts(source: Source) -> list[Payload]:
    value = Payload(source.connector.value_column or "value", source.value) if source.value else None
    key = Payload("key", source.key) if source.key else None
    return [part for part in (value, key) if part is not None and part.decode.format != "bytes"]


def _says(part: Payload) -> str:
    return f"the key is not {part.what}" if part.column == "key" else f"not {part.what}"


def _is_corrupt(raw: DataFrame) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    # Spark parses only the columns that are asked for: so all of them are asked for.
    visible = F.to_json(F.struct(*(column(name) for name in raw.columns if name != CORRUPT)))
    return F.col(CORRUPT).isNotNull() & (visible != "-")
