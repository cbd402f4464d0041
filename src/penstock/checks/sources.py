"""Sources: whether they are replayable, and which are static tables."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.connector import StaticTable, Stream, Versioned
from penstock.model import Finding, Pipeline, Source


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
