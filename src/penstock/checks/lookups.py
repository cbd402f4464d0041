"""Lookups: the table of a lookup step supports queries by key."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.connector import LookupTable
from penstock.model import Finding, Pipeline, Source
from penstock.steps.lookup import LookupStep


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
