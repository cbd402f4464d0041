"""The records of a source that cannot be decoded, each with where it is, why it is bad and what it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.connectors.files import CORRUPT
from penstock.engine.parts import Part, quoted, short
from penstock.errors import CallError
from penstock.model import Source

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_WHERE = ("topic", "partition", "offset", "timestamp")


def bad_records(source: Source, raw: DataFrame) -> DataFrame:
    """Only the bad ones: their place, `reason` and `record`."""
    from pyspark.sql import functions as F  # noqa: N812

    where = [quoted(name) for name in _WHERE if name in raw.columns]
    parts = _parts(source)
    if parts:
        rows = raw.select(*where, *(quoted(part.column) for part in parts), *(part.decoded() for part in parts))
        reason = F.coalesce(*(F.when(part.bad(rows), F.lit(_says(part))) for part in parts))
        shown = F.coalesce(*(F.when(part.bad(rows), part.shown()) for part in parts))
        found = rows.select(*where, reason.alias("reason"), shown.alias("record"))
        return found.where(F.col("reason").isNotNull())
    if CORRUPT not in raw.columns:
        raise CallError(f"source {source.name!r} decodes nothing, so it has no bad records; choose another source")
    return raw.where(_is_corrupt(raw)).select(
        F.lit("not of the declared schema").alias("reason"), short(F.col(CORRUPT)).alias("record")
    )


def _parts(source: Source) -> list[Part]:
    value = Part(source.connector.value_column or "value", source.value) if source.value else None
    key = Part("key", source.key) if source.key else None
    return [part for part in (value, key) if part is not None and part.decode.format != "bytes"]


def _says(part: Part) -> str:
    return f"the key is not {part.what}" if part.column == "key" else f"not {part.what}"


def _is_corrupt(raw: DataFrame) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    # Spark parses only the columns that are asked for: so all of them are asked for.
    visible = F.to_json(F.struct(*(quoted(name) for name in raw.columns if name != CORRUPT)))
    return F.col(CORRUPT).isNotNull() & (visible != "-")
