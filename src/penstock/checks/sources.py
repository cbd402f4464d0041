"""Sources: what a crash does to them, which of them are static tables, and which can be looked up by key."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.connector import LookupTable, StaticTable, Stream, Versioned
from penstock.model import Finding, Pipeline, Source
from penstock.steps.lookup import LookupStep


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
