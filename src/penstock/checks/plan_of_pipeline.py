"""The plan of every source and step."""

from __future__ import annotations

from penstock.checks.ddl import DdlError, parse_columns
from penstock.checks.plan import Column, Plan
from penstock.checks.plan_of_sql import SqlPlanner
from penstock.checks.sql_text import sql_text
from penstock.model import Pipeline, Source, Step
from penstock.steps.dedupe import DedupeStep
from penstock.steps.lookup import LookupStep
from penstock.steps.processor import ProcessorStep
from penstock.steps.running import RunningStep

_STRUCTURED = ("json", "csv", "avro")
_KEPT = "_plans"


def plans(pipeline: Pipeline) -> dict[str, Plan]:
    """The plan of each source and step that can be read; those in a cycle are missing. Made once per pipeline."""
    kept: dict[str, Plan] | None = pipeline.__dict__.get(_KEPT)
    if kept is None:
        # As a cached property does it: a pipeline is frozen and knows nothing of plans.
        kept = pipeline.__dict__[_KEPT] = _plans(pipeline)
    return kept


def _plans(pipeline: Pipeline) -> dict[str, Plan]:
    found = {source.name: _of_source(source) for source in pipeline.sources}
    waiting = list(pipeline.steps)
    while ready := [step for step in waiting if found.keys() >= set(step.reads)]:
        found |= {step.name: plan_of_step(step, found) for step in ready}
        waiting = [step for step in waiting if step not in ready]
    return found


def plan_of_step(step: Step, known: dict[str, Plan]) -> Plan:
    """The plan of a step over those that it reads."""
    reads = {name: known[name] for name in step.reads}
    text = sql_text(step)
    if text is not None:
        return SqlPlanner(step, text, reads).plan()
    what, children = step.what, tuple(reads.values())
    streams = any(plan.streams for plan in children)
    below = children[0] if children else None
    if isinstance(what, DedupeStep) and below is not None:
        keys = tuple(column for name in what.keys if (column := below.column(name)))
        return Plan("dedupe", step.at, step.name, children, below.columns, streams, keys, mode=what.remember)
    if isinstance(what, RunningStep) and below is not None:
        columns = below.columns and (*below.columns, *(Column(name) for name in what.totals))
        return Plan("stateful", step.at, step.name, children, columns, streams, mode="append")
    if isinstance(what, ProcessorStep):
        return Plan("stateful", step.at, step.name, children, _of_ddl(what.output, what.event_time), streams)
    if isinstance(what, LookupStep) and below is not None:
        added = tuple(Column(name) for name in what.columns)
        columns = (*below.columns, *added) if below.columns and added else None
        return Plan("project", step.at, step.name, (below,), columns, below.streams)
    return Plan("unknown", step.at, step.name, children, None, streams)


def _of_source(source: Source) -> Plan:
    watermark = source.watermark.column if source.watermark else ""
    columns = _source_columns(source, watermark)
    scan = Plan("scan", source.at, source.name, (), columns, not source.static)
    return Plan("watermark", source.at, source.name, (scan,), columns, scan.streams) if watermark else scan


def _source_columns(source: Source, watermark: str) -> tuple[Column, ...] | None:
    if source.value is None or source.value.format not in _STRUCTURED:
        if source.connector.infers_schema or (source.value is not None and source.connector.spark_columns is None):
            return None
        ddl = source.connector.spark_columns
        extra = [Column("_record")] if source.metadata else []
    else:
        ddl = source.value.schema if source.value.format != "avro" else None
        extra = [*([Column("key")] if source.key else []), *([Column("_record")] if source.metadata else [])]
    found = _of_ddl(ddl, watermark) if ddl else None
    return None if found is None else (*found, *extra)


def _of_ddl(ddl: str, watermark: str) -> tuple[Column, ...] | None:
    try:
        columns = parse_columns(ddl)
    except DdlError:
        return None
    return tuple(Column(each.name, each.name.lower() == watermark.lower(), type=each.type) for each in columns)
