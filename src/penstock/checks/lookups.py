"""Lookups: a step that asks by key asks a table that can be asked."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.model import Finding, Pipeline, Source
from penstock.steps.lookup import LookupStep


def lookups_are_into_tables(pipeline: Pipeline) -> Iterator[Finding]:
    """A lookup is into a static source whose system answers by key."""
    for step in pipeline.steps:
        if not isinstance(step.what, LookupStep):
            continue
        table = pipeline.streams.get(step.what.table)
        at = pipeline.where(step, "lookup", "in")
        if table is None:
            # names_exist says so.
            continue
        if not isinstance(table, Source) or not table.static:
            says = f"step {step.name!r} looks into {table.name!r}, which is no static source"
            yield Finding("lookups-are-into-tables", at, says, "add 'static: true' to it, or join the streams in SQL")
        elif not table.connector.can_look_up:
            says = f"step {step.name!r} looks into {table.name!r}, and {table.connector.kind} does not answer by key"
            yield Finding("lookups-are-into-tables", at, says, "join it in SQL: SELECT ... FROM a JOIN b")
