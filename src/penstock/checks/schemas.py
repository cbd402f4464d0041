"""Schemas: declared columns are valid, and the watermark's is among them."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.checks.ddl import Column, DdlError, parse_columns
from penstock.model import Finding, Pipeline, Source
from penstock.text import did_you_mean

_TIMES = ("timestamp", "timestamp_ltz", "struct")


def schemas_parse(pipeline: Pipeline) -> Iterator[Finding]:
    """Declared columns are valid DDL."""
    for source in pipeline.sources:
        for keys, text in _ddls(source):
            try:
                parse_columns(text)
            except DdlError as error:
                says = f"source {source.name!r}: {keys[-1]!r} cannot be read: {error.says}"
                yield Finding("schemas-parse", pipeline.where(source, *keys), says, error.fix)


def decoding_fits_source(pipeline: Pipeline) -> Iterator[Finding]:
    """A source is decoded only if it has a value to decode."""
    for source in pipeline.sources:
        decode, kind = source.value, source.connector.kind
        if decode is None:
            continue
        key = "value" if decode.format in ("string", "bytes") else decode.format
        at = pipeline.where(source, key)
        if source.connector.value_column is None:
            says = f"source {source.name!r}: {kind} rows have columns already, there is nothing to decode"
            yield Finding("decoding-fits-source", at, says, f"remove {key!r}")
        elif source.connector.declared_schema or source.connector.infers_schema:
            says = f"source {source.name!r} has its columns from {kind!r} and from {key!r}"
            yield Finding("decoding-fits-source", at, says, f"remove {key!r}")


def keys_are_there(pipeline: Pipeline) -> Iterator[Finding]:
    """A key is decoded only if records have one and no column has its name."""
    for source in pipeline.sources:
        taken = {column.name.lower() for column in _value_columns(source)}
        if source.key is not None and not source.connector.has_keys:
            says = f"source {source.name!r}: {source.connector.kind} records have no key"
            yield Finding("keys-are-there", pipeline.where(source, "key"), says, "remove 'key'")
        elif source.key is not None and "key" in taken:
            says = f"source {source.name!r} has a field 'key' in its value and a decoded key"
            yield Finding("keys-are-there", pipeline.where(source, "key"), says, "remove one of them")
        if source.metadata and "_record" in taken:
            says = f"source {source.name!r} already has a field '_record'"
            yield Finding("keys-are-there", pipeline.where(source, "metadata"), says, "remove 'metadata'")


def watermark_column_exists(pipeline: Pipeline) -> Iterator[Finding]:
    """A watermark is on a declared column that holds a time."""
    for source in pipeline.sources:
        declared = _declared_columns(source)
        if source.watermark is None or not declared:
            continue
        name, at = source.watermark.column, pipeline.where(source, "watermark", "column")
        column = next((each for each in declared if each.name.lower() == name.lower()), None)
        if column is None:
            says = f"source {source.name!r}: the watermark's column {name!r} is not declared"
            yield Finding("watermark-column-exists", at, says, did_you_mean(name, (each.name for each in declared)))
        elif column.type not in _TIMES:
            what = "which has no time zone" if column.type == "timestamp_ntz" else "not a time"
            says = f"source {source.name!r}: the watermark's column {name!r} is {column.type}, {what}"
            yield Finding("watermark-column-exists", at, says, f"declare '{column.name} timestamp'")


def _ddls(source: Source) -> Iterator[tuple[tuple[str, ...], str]]:
    for key, decode in (("value", source.value), ("key", source.key)):
        if decode is not None and decode.format in ("json", "csv"):
            yield (decode.format,) if key == "value" else (key, decode.format), decode.schema
    schema = source.connector.declared_schema
    if schema:
        yield (source.connector.kind, "schema"), schema


def _declared_columns(source: Source) -> tuple[Column, ...]:
    declared = _value_columns(source)
    if declared and source.metadata:
        declared = (*declared, Column("_record", "struct"))
    if declared and source.key is not None:
        declared = (*declared, Column("key", source.key.format))
    return declared


def _value_columns(source: Source) -> tuple[Column, ...]:
    try:
        return next((parse_columns(text) for _, text in _ddls(source)), ())
    except DdlError:
        return ()
