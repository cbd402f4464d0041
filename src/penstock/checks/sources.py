"""Sources: their columns, what a crash does to them, which are static tables, and which can be looked up by key."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.checks.ddl import Column, DdlError, Type, parse_columns
from penstock.checks.plan_of_pipeline import analyse
from penstock.connector import LookupTable, StaticTable, Stream, Versioned
from penstock.model import Finding, Pipeline, Source
from penstock.steps.lookup import LookupStep
from penstock.text import did_you_mean


def sources_can_be_read_again(pipeline: Pipeline) -> Iterator[Finding]:
    """A source can replay after a crash what was not written yet."""
    for source in pipeline.sources:
        if not source.connector.replayable:
            says = f"source {source.name!r} ({source.connector.kind}) is {source.connector.promise}"
            fix = "fine for trying out; put Kafka or files in front for anything else"
            yield Finding("sources-can-be-read-again", source.at, says, fix, severity="warning")


def static_sources_are_tables(pipeline: Pipeline) -> Iterator[Finding]:
    """A static source is readable as a table and has no watermark."""
    for source in pipeline.sources:
        if source.static and not isinstance(source.connector, StaticTable):
            says = f"source {source.name!r}: {source.connector.kind} cannot be read as a static table"
            fix = "remove 'static', or use files"
            yield Finding("static-sources-are-tables", pipeline.where(source, "static"), says, fix)
        if not source.static and not isinstance(source.connector, Stream):
            says = f"source {source.name!r}: {source.connector.kind} can only be read as a static table"
            yield Finding("static-sources-are-tables", source.at, says, "add 'static: true'")
        if source.static == "on change" and isinstance(source.connector, StaticTable) and not _tells_changes(source):
            says = f"source {source.name!r}: {source.connector.kind} cannot detect changes of the table"
            asked = "set 'version_query', or " if "version_query" in type(source.connector).model_fields else ""
            fix = f"{asked}refresh it at an interval, like '10 minutes'"
            yield Finding("static-sources-are-tables", pipeline.where(source, "static"), says, fix)
        if source.static and source.watermark is not None:
            says = f"source {source.name!r} is static, and a table has no watermark"
            yield Finding("static-sources-are-tables", pipeline.where(source, "watermark"), says, "remove 'watermark'")


def sinks_read_streams(pipeline: Pipeline) -> Iterator[Finding]:
    """Every sink reads a stream, not only static tables."""
    for sink in pipeline.sinks:
        names = pipeline.upstream(sink.reads)
        read = [source for source in pipeline.sources if source.name in names]
        if read and all(source.static for source in read):
            says = f"sink {sink.name!r} reads only static tables, so the query would never have a batch"
            yield Finding("sinks-read-streams", sink.at, says, "join them with a stream, or remove 'static'")
        plan = analyse(pipeline).plans.get(sink.reads)
        if not read and plan is not None and plan.is_known:
            says = f"sink {sink.name!r} reads {sink.reads!r}, which reads no source: the query would never have a batch"
            yield Finding("sinks-read-streams", sink.at, says, "read a source in FROM")


def _tells_changes(source: Source) -> bool:
    return isinstance(source.connector, Versioned) and source.connector.tells_changes


def lookups_are_into_tables(pipeline: Pipeline) -> Iterator[Finding]:
    """A lookup reads a static source whose connector supports queries by key."""
    for step in pipeline.steps:
        if not isinstance(step.what, LookupStep):
            continue
        table = pipeline.streams.get(step.what.table)
        at = pipeline.where(step, "lookup", "in")
        if table is None:
            # Reported by names_exist.
            continue
        if not isinstance(table, Source) or not table.static:
            says = f"step {step.name!r} looks up rows in {table.name!r}, which is not a static source"
            yield Finding("lookups-are-into-tables", at, says, "add 'static: true' to it, or join the streams in SQL")
        elif not isinstance(table.connector, LookupTable):
            says = f"step {step.name!r} looks up rows in {table.name!r}, and {table.connector.kind} has no key lookup"
            yield Finding("lookups-are-into-tables", at, says, "join it in SQL: SELECT ... FROM a JOIN b")


_TIMES = ("timestamp", "struct")


def schemas_parse(pipeline: Pipeline) -> Iterator[Finding]:
    """Declared columns are valid DDL."""
    for source in pipeline.sources:
        for keys, text in _ddls(source):
            try:
                found = parse_columns(text)
            except DdlError as error:
                says = f"source {source.name!r}: {keys[-1]!r} cannot be read: {error.says}"
                yield Finding("schemas-parse", pipeline.where(source, *keys), says, error.fix)
            else:
                if not found:
                    says = f"source {source.name!r}: {keys[-1]!r} declares no columns"
                    yield Finding("schemas-parse", pipeline.where(source, *keys), says, "write 'name type, name type'")


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
        elif column.type.name not in _TIMES:
            what = "which has no time zone" if column.type.name == "timestamp_ntz" else "not a time"
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
        declared = (*declared, Column("_record", Type("struct")))
    if declared and source.key is not None:
        declared = (*declared, Column("key", Type(source.key.format)))
    return declared


def _value_columns(source: Source) -> tuple[Column, ...]:
    try:
        return next((parse_columns(text) for _, text in _ddls(source)), ())
    except DdlError:
        return ()
