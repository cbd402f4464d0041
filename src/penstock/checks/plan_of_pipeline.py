"""The plan of every source and step."""

from __future__ import annotations

from dataclasses import dataclass, replace

from penstock.checks.ddl import DdlError, Type, first_repeated, parse_columns
from penstock.checks.plan import Column, Equality, Mistake, Plan
from penstock.checks.sql_text import sql_text, target_selections
from penstock.model import Pipeline, Source, Step
from penstock.sql import find_watermark
from penstock.steps.dedupe import DedupeStep
from penstock.steps.join import JoinStep
from penstock.steps.lookup import LookupStep
from penstock.steps.processor import ProcessorStep
from penstock.steps.running import RunningStep
from penstock.steps.top import LatestStep, TopStep

_STRUCTURED = ("json", "csv", "avro")
_PLAIN = {"string": "string", "bytes": "binary"}
_KEPT = "_analysis"


@dataclass(frozen=True)
class Analysis:
    """What is known of a pipeline without Spark."""

    plans: dict[str, Plan]
    """Of each source and step that can be read; those in a cycle are missing."""
    mistakes: dict[str, list[Mistake]]
    """What Spark would refuse in the SQL of a step, or of a target."""


def analyse(pipeline: Pipeline) -> Analysis:
    """Plan every source, step and target; done once per pipeline."""
    kept: Analysis | None = pipeline.__dict__.get(_KEPT)
    if kept is None:
        # As a cached property does it: a pipeline is frozen and knows nothing of plans.
        kept = pipeline.__dict__[_KEPT] = _analyse(pipeline)
    return kept


def _analyse(pipeline: Pipeline) -> Analysis:
    found = Analysis({source.name: _of_source(source) for source in pipeline.sources}, {})
    waiting = list(pipeline.steps)
    while ready := [step for step in waiting if found.plans.keys() >= set(step.reads)]:
        for step in ready:
            found.plans[step.name] = _of_step(step, found)
        waiting = [step for step in waiting if step not in ready]
    for step in target_selections(pipeline):
        if step.reads[0] in found.plans:
            found.plans[step.name] = _of_step(step, found)
    return found


def _of_step(step: Step, known: Analysis) -> Plan:
    reads = {name: known.plans[name] for name in step.reads}
    text = sql_text(step)
    if text is not None:
        # Loads sqlglot, which a pipeline without SQL need not wait for.
        from penstock.checks.plan_of_sql import SqlPlanner

        if find_watermark(text) is not None:
            # It is on one column of one of the tables; sqlglot does not parse which.
            reads = {name: _forget_watermarks(plan) for name, plan in reads.items()}
        planner = SqlPlanner(step, text, reads)
        known.mistakes[step.name] = planner.mistakes
        return planner.plan()
    what, children = step.what, tuple(reads.values())
    streams = any(plan.streams for plan in children)
    below = children[0] if children else None
    if isinstance(what, DedupeStep) and below is not None:
        keys = tuple(column for name in what.keys if (column := below.column(name)))
        return Plan("dedupe", step.at, step.name, children, below.columns, streams, keys, mode=what.remember)
    if isinstance(what, RunningStep) and below is not None:
        columns = below.columns and (*below.columns, *(Column(name) for name in what.totals))
        return Plan("stateful", step.at, step.name, children, columns, streams, mode="append")
    if isinstance(what, JoinStep) and len(children) == 2:
        return _of_join(step, what, *children)
    if isinstance(what, TopStep | LatestStep) and below is not None:
        return _of_top(step, what, below)
    if isinstance(what, ProcessorStep):
        return Plan("stateful", step.at, step.name, children, _of_ddl(what.output, what.event_time), streams=streams)
    if isinstance(what, LookupStep) and below is not None:
        added = tuple(Column(name) for name in what.columns)
        columns = (*below.columns, *added) if below.columns and added else None
        return Plan("project", step.at, step.name, (below,), columns, below.streams)
    return Plan("unknown", step.at, step.name, children, streams=streams)


def _forget_watermarks(plan: Plan) -> Plan:
    """The plan without knowledge of which columns have no watermark."""
    columns = plan.columns and tuple(
        column if column.has_watermark else replace(column, has_watermark=None) for column in plan.columns
    )
    return replace(plan, columns=columns)


def _of_join(step: Step, what: JoinStep, left: Plan, right: Plan) -> Plan:
    """A join of two streams with a bound, which ends if both have a watermark."""
    on, columns = None, None
    if left.columns is not None and right.columns is not None:
        ends = all(any(column.has_watermark for column in plan.columns or ()) for plan in (left, right))
        on = Equality(has_keys=True, ends_left=ends, ends_right=ends)
        keys = {name.lower() for name in what.on.values()}
        plain = {column.name: column.name for column in right.columns if column.name.lower() not in keys}
        added = [(new, right.column(name)) for new, name in (what.columns or plain).items()]
        columns = (*left.columns, *(replace(found or Column(new), name=new) for new, found in added))
        if first_repeated(column.name for column in columns) is not None:
            # Reported by columns_are_unambiguous.
            columns = None
    says = f"{what.left} and {what.right}"
    return Plan("join", step.at, step.name, (left, right), columns, True, side=what.side, on=on, says=says)


def _of_top(step: Step, what: TopStep | LatestStep, below: Plan) -> Plan:
    """An aggregation by the key; only the columns of the key keep their watermark."""
    found = [below.column(name) for name in what.by] if below.columns is not None else [None]
    keys = None if None in found else tuple(column for column in found if column is not None)
    names = {name.lower() for name in what.by}
    columns = below.columns and tuple(
        column if column.name.lower() in names else replace(column, has_watermark=False) for column in below.columns
    )
    if columns and isinstance(what, TopStep):
        columns = (*columns, Column(what.rank, type=Type("int")))
        # A column that is there twice is reported by columns_are_unambiguous.
        columns = columns if first_repeated(column.name for column in columns) is None else None
    return Plan("aggregate", step.at, step.name, (below,), columns, below.streams, keys)


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
    found = found and tuple(_decode(source, column) for column in found)
    taken = {column.name.lower() for column in found or ()}
    # A column that is there twice is another rule's.
    return None if found is None or any(each.name in taken for each in extra) else (*found, *extra)


def _decode(source: Source, column: Column) -> Column:
    """A column of a connector, with the type that decoding gives it."""
    if source.key is not None and column.name == "key":
        return replace(column, type=None)
    if source.value is not None and source.value.format in _PLAIN and column.name == source.connector.value_column:
        return replace(column, type=Type(_PLAIN[source.value.format]))
    return column


def _of_ddl(ddl: str, watermark: str) -> tuple[Column, ...] | None:
    try:
        columns = parse_columns(ddl)
    except DdlError:
        return None
    return tuple(Column(each.name, each.name.lower() == watermark.lower(), type=each.type) for each in columns)
