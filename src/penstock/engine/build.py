"""Hop three: model to DataFrames; starts nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from penstock.connector import SourceOptions, StaticTable, Stream
from penstock.engine.decode import decode
from penstock.errors import BuildError, CallError, PenstockError
from penstock.model import Location, Node, Pipeline, Source, Step, Watermark
from penstock.spark.errors import error_class, find_offset, is_transient_at_start
from penstock.spark.refusals import ANY_REFUSAL, translate
from penstock.text import did_you_mean

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


Read = Callable[[Source, "SparkSession"], "DataFrame"]


class PlacedError(BuildError):
    """Spark refuses a source, a step or a sink, at a line of the user's file."""

    def __init__(self, at: Location, says: str, fix: str = "", rule: str = ANY_REFUSAL) -> None:
        self.at, self.says, self.fix, self.rule = at, says, fix, rule
        super().__init__(f"{at}: {says}" + (f"; {fix}" if fix else ""))


def from_connector(source: Source, spark: SparkSession) -> DataFrame:
    """The rows of a source as its connector reads them."""
    connector = source.connector
    if source.static and isinstance(connector, StaticTable):
        return connector.read_static(spark)
    if not source.static and isinstance(connector, Stream):
        return connector.read(spark)
    how = "only be read as a static table; add 'static: true'" if not source.static else "not be read as a static table"
    raise BuildError(f"{connector.kind} can {how}")


def build(
    pipeline: Pipeline, spark: SparkSession, read: Read = from_connector, *, once: bool = False
) -> dict[str, DataFrame]:
    """Every source and step as a streaming DataFrame, by name; a test hands in its own way to read."""
    send_python_files(pipeline, spark)
    streams: dict[str, DataFrame] = {}
    for source in pipeline.sources:
        streams[source.name] = read_source(pipeline, source, spark, read, once=once)
    # A test hands in the rows of a table; there is no system to ask.
    tables = {source.name: source.connector for source in pipeline.sources if source.static and read is from_connector}
    for step in in_order(pipeline):
        streams[step.name] = build_step(step, streams, spark, tables)
    return streams


def in_order(pipeline: Pipeline) -> list[Step]:
    """The steps, each after those that it reads."""
    done = {source.name for source in pipeline.sources}
    waiting, ordered = list(pipeline.steps), []
    while waiting:
        ready = [step for step in waiting if done.issuperset(step.reads)]
        if not ready:
            names = ", ".join(step.name for step in waiting)
            raise PlacedError(waiting[0].at, f"steps {names} cannot be put in order; run penstock check")
        ordered += ready
        done.update(step.name for step in ready)
        waiting = [step for step in waiting if step not in ready]
    return ordered


def read_source(
    pipeline: Pipeline, source: Source, spark: SparkSession, read: Read, *, once: bool = False
) -> DataFrame:
    """The columns of a source, decoded, with its watermark; an error is at its line."""
    try:
        raw = read(source, spark)
        ends = once or all(sink.trigger.ends for sink in pipeline.sinks)
        rows = decode(source, raw, counted=_can_count(pipeline, source), ends=ends)
        if source.static:
            # Cached: read once, not with every batch, and refreshed only when it is due.
            return rows.persist()
        if source.watermark is None:
            return rows
        return _with_watermark(source, source.watermark, rows)
    except PenstockError:
        raise
    except Exception as error:
        raise refuse("source", source, error) from error


def _with_watermark(source: Source, watermark: Watermark, rows: DataFrame) -> DataFrame:
    # Upper and lower case are the same, as in Spark's SQL.
    found = [field for field in rows.schema if field.name.lower() == watermark.column.lower()]
    if not found:
        fix = did_you_mean(watermark.column, rows.columns)
        says = f"source {source.name!r} has no column {watermark.column!r} for its watermark; {fix}"
        raise PlacedError(source.at, says)
    kind = found[0].dataType.typeName()
    if kind not in ("timestamp", "struct"):
        fix = f"declare {found[0].name!r} as timestamp"
        raise PlacedError(source.at, f"source {source.name!r} has its watermark on a {kind}; {fix}")
    return rows.withWatermark(found[0].name, watermark.delay)


def build_step(
    step: Step, streams: dict[str, DataFrame], spark: SparkSession, tables: Mapping[str, SourceOptions]
) -> DataFrame:
    """The rows of a step; an error is at its line, or at the line of its SQL that Spark names."""
    try:
        return step.what.bind_tables(tables).build(spark, {name: streams[name] for name in step.reads})
    except CallError:
        raise
    except PenstockError as error:
        raise PlacedError(step.at, f"step {step.name!r}: {error}") from error
    except Exception as error:
        raise refuse("step", step, error) from error


def locate(node: Node, error: Exception) -> Location:
    """The place in the user's file that a refusal of Spark is about."""
    offset = find_offset(node.text, error) if isinstance(node, Step) and node.text else None
    return node.locate(offset) if isinstance(node, Step) and offset is not None else node.at


def refuse(what: str, node: Node, error: Exception, where: str = "") -> PlacedError:
    """Spark's refusal, at the place in the user's file that it is about."""
    refusal = translate(error)
    found = PlacedError(locate(node, error), f"{what} {node.name!r}{where}: {refusal.says}", refusal.fix, refusal.rule)
    found.retry = is_transient_at_start(error_class(error), f"{type(error).__name__}: {error}")
    return found


def _can_count(pipeline: Pipeline, source: Source) -> bool:
    # The continuous and real-time engines do not know `observe`, and a static table is read between batches.
    if source.static:
        return False
    readers = [sink for sink in pipeline.sinks if source.name in pipeline.upstream(sink.reads)]
    return all(sink.trigger.has_micro_batches for sink in readers)


def send_python_files(pipeline: Pipeline, spark: SparkSession) -> None:
    """Make the modules in the folder of the pipeline file importable on executors."""
    import sys
    from pathlib import Path

    folder = Path(pipeline.folder).resolve()
    if not pipeline.runs_user_code:
        return
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    for file in sorted(folder.glob("*.py")):
        if not file.name.startswith("test_") and file.name != "conftest.py":
            spark.sparkContext.addPyFile(str(file))
