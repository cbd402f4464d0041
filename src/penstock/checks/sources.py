"""Sources: what a crash does to them."""

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
