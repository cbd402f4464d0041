"""A source as the file says it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from penstock.connectors import SOURCES
from penstock.load.decode import FORMATS, read_decode, read_value
from penstock.load.reading import Reading
from penstock.load.sections import one_kind
from penstock.load.validate import read_options
from penstock.model import Source, Watermark
from penstock.options import Duration, Options
from penstock.words import listed, shown

_DECODES = (*FORMATS, "value", "key")


class _Watermark(Options):
    column: str = Field(min_length=1, description="The column with the time of an event.")
    delay: Duration = Field(description="How late a row may be, like '30 minutes'.")


class _Static(Options):
    refresh: Literal["never", "on change"] | Duration = Field(
        default="never", description="When the table is read again: never, on change, or every so often."
    )


class _Settings(Options):
    metadata: bool = Field(default=False, description="Add the struct `_record`: where each record comes from.")
    static: bool | _Static = Field(default=False, description="Read it as a table beside the streams.")
    watermark: _Watermark | None = Field(default=None, description="How late a row may be.")
    bad_records: Literal["fail", "drop"] = Field(
        default="fail", description="What to do with records that cannot be decoded; `drop` counts them."
    )


_OWN = tuple(_Settings.model_fields)


def read_source(reading: Reading, name: str, raw: Any) -> Source | None:
    """The source, or None after noting everything wrong with it."""
    keys, who = ("sources", name), f"source {name!r}"
    if not isinstance(raw, Mapping):
        says = f"{who} is {shown(raw)}, expected a mapping with a connector"
        reading.found("wrong-type", keys, says, f"write one of {listed(sorted(SOURCES))} below it")
        return None
    kind = one_kind(reading, raw, SOURCES, (*_DECODES, *_OWN), keys)
    connector = read_options(reading, SOURCES[kind], raw[kind], (*keys, kind), who) if kind else None
    settings = read_options(reading, _Settings, {key: raw[key] for key in _OWN if key in raw}, keys, who)
    value = read_value(reading, name, raw)
    key = read_decode(reading, name, raw["key"], (*keys, "key")) if "key" in raw else None
    if connector is None or settings is None:
        return None
    late = settings.watermark
    return Source(
        name=name,
        at=reading.document.place(keys),
        connector=connector,
        value=value,
        key=key,
        metadata=settings.metadata,
        watermark=Watermark(late.column, late.delay) if late else None,
        bad_records=settings.bad_records,
        static=_refresh(settings.static),
    )


def _refresh(static: bool | _Static) -> str:
    if isinstance(static, _Static):
        return static.refresh
    return "never" if static else ""
