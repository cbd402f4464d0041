"""Sources: what a crash does to them, and which of them are tables beside the streams."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.model import Finding, Pipeline


def sources_can_be_read_again(pipeline: Pipeline) -> Iterator[Finding]:
    """A source can give again, after a crash, what was not yet written."""
    for source in pipeline.sources:
        if not source.connector.replayable:
            says = f"source {source.name!r} ({source.connector.kind}) is {source.connector.promise}"
            fix = "fine for trying out; put Kafka or files in front for anything else"
            yield Finding("sources-can-be-read-again", source.at, says, fix, severity="warning")


def static_sources_are_tables(pipeline: Pipeline) -> Iterator[Finding]:
    """A static source is one that can be read as a table, and needs no watermark."""
    for source in pipeline.sources:
        kind = source.connector.kind
        if not source.static and not source.connector.can_be_stream:
            says = f"source {source.name!r}: {kind} is a table and no stream"
            yield Finding("static-sources-are-tables", source.at, says, "add 'static: true'")
        if source.static == "on change" and not source.connector.tells_changes:
            says = f"source {source.name!r}: {kind} cannot tell when a table changes"
            fix = "write 'refresh: 10 minutes', or never"
            yield Finding("static-sources-are-tables", pipeline.where(source, "static", "refresh"), says, fix)
        if source.static and not source.connector.can_be_static:
            says = f"source {source.name!r}: {source.connector.kind} cannot be read as a static table"
            fix = "take 'static' out, or use files"
            yield Finding("static-sources-are-tables", pipeline.where(source, "static"), says, fix)
        if not source.static and not source.connector.can_be_stream:
            says = f"source {source.name!r}: {source.connector.kind} can only be read as a static table"
            yield Finding("static-sources-are-tables", source.at, says, "add 'static: true'")
        if source.static == "on change" and source.connector.can_be_static and not source.connector.tells_changes:
            says = f"source {source.name!r}: {source.connector.kind} does not tell when the table has changed"
            asked = "set 'version_query', or " if "version_query" in type(source.connector).model_fields else ""
            fix = f"{asked}refresh it every so often, like '10 minutes'"
            yield Finding("static-sources-are-tables", pipeline.where(source, "static"), says, fix)
        if source.static and source.watermark is not None:
            says = f"source {source.name!r} is static, and a table has no watermark"
            yield Finding(
                "static-sources-are-tables", pipeline.where(source, "watermark"), says, "take 'watermark' out"
            )


def sinks_read_streams(pipeline: Pipeline) -> Iterator[Finding]:
    """Every sink reads a stream, not only static tables."""
    for sink in pipeline.sinks:
        names = pipeline.upstream(sink.reads)
        read = [source for source in pipeline.sources if source.name in names]
        if read and all(source.static for source in read):
            says = f"sink {sink.name!r} reads only static tables, so it would have nothing to wait for"
            yield Finding("sinks-read-streams", sink.at, says, "join them with a stream, or take 'static' out")
