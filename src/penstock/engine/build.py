"""Hop three: model to DataFrames; starts nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from penstock.engine.decode import decoded
from penstock.engine.reasons import condition, position, sentence
from penstock.errors import BuildError, PenstockError
from penstock.model import Location, Node, Pipeline, Source, Step
from penstock.options import SourceOptions
from penstock.supervise.causes import may_pass

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


Read = Callable[[Source, "SparkSession"], "DataFrame"]


def from_connector(source: Source, spark: SparkSession) -> DataFrame:
    """The rows of a source as its connector reads them."""
    return source.connector.read_static(spark) if source.static else source.connector.read(spark)


def build(pipeline: Pipeline, spark: SparkSession, read: Read = from_connector) -> dict[str, DataFrame]:
    """Every source and step as a streaming DataFrame, by name; a test hands in its own way to read."""
    _send_python_files(pipeline, spark)
    streams: dict[str, DataFrame] = {}
    for source in pipeline.sources:
        streams[source.name] = _read(pipeline, source, spark, read)
    # Rows that a test hands in are all there is: no system stands behind them.
    tables = {source.name: source.connector for source in pipeline.sources if source.static and read is from_connector}
    for step in in_order(pipeline):
        streams[step.name] = _transform(step, streams, spark, tables)
    return streams


def in_order(pipeline: Pipeline) -> list[Step]:
    """The steps, each after those that it reads."""
    done = {source.name for source in pipeline.sources}
    waiting, ordered = list(pipeline.steps), []
    while waiting:
        ready = [step for step in waiting if done.issuperset(step.reads)]
        if not ready:
            names = ", ".join(step.name for step in waiting)
            raise BuildError(f"{waiting[0].at}: steps {names} cannot be put in order; run penstock check")
        ordered += ready
        done.update(step.name for step in ready)
        waiting = [step for step in waiting if step not in ready]
    return ordered


def _read(pipeline: Pipeline, source: Source, spark: SparkSession, read: Read) -> DataFrame:
    try:
        raw = read(source, spark)
        rows = decoded(source, raw, counted=_can_count(pipeline, source))
        if source.static:
            # Kept: read once and not with every batch, and what is joined with changes only when we say so.
            return rows.persist()
        if source.watermark is None:
            return rows
        kind = rows.schema[source.watermark.column].dataType.typeName()
        if not kind.startswith("timestamp"):
            fix = f"declare {source.watermark.column!r} as timestamp"
            raise BuildError(f"{source.at}: source {source.name!r} has its watermark on a {kind}; {fix}")
        return rows.withWatermark(source.watermark.column, source.watermark.delay)
    except KeyError as error:
        wanted = source.watermark.column if source.watermark else error
        raise BuildError(f"{source.at}: source {source.name!r} has no column {wanted!r} for its watermark") from error
    except PenstockError:
        raise
    except Exception as error:
        raise refused("source", source, error) from error


def _transform(
    step: Step, streams: dict[str, DataFrame], spark: SparkSession, tables: Mapping[str, SourceOptions]
) -> DataFrame:
    try:
        return step.what.beside(tables).build(spark, {name: streams[name] for name in step.reads})
    except PenstockError as error:
        raise BuildError(f"{step.at}: step {step.name!r}: {error}") from error
    except Exception as error:
        raise refused("step", step, error) from error


def refused(what: str, node: Node, error: Exception) -> BuildError:
    """Spark's refusal, at the line of the user's file that it is about."""
    at = node.at
    line = position(error)
    text_at: Location | None = getattr(node, "text_at", None)
    if line is not None and text_at is not None:
        at = Location(text_at.file, text_at.line + line - 1)
    found = BuildError(f"{at}: {what} {node.name!r}: {sentence(error)}")
    found.retry = may_pass(condition(error), f"{type(error).__name__}: {error}")
    return found


def _can_count(pipeline: Pipeline, source: Source) -> bool:
    # The continuous and real-time engines know no `observe`, and a static table is read between batches.
    if source.static:
        return False
    readers = [sink for sink in pipeline.sinks if source.name in pipeline.upstream(sink.reads)]
    return all(sink.trigger.kind not in ("continuous", "real-time") for sink in readers)


def _send_python_files(pipeline: Pipeline, spark: SparkSession) -> None:
    """Modules beside the pipeline file must be importable on executors too."""
    import sys
    from pathlib import Path

    folder = Path(pipeline.folder).resolve()
    steps = (step.what.kind in ("python", "processor") for step in pipeline.steps)
    code = [*steps, *(hasattr(connector, "python") for connector in pipeline.connectors), *pipeline.listeners]
    if not any(code):
        return
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    for file in sorted(folder.glob("*.py")):
        if not file.name.startswith("test_") and file.name != "conftest.py":
            spark.sparkContext.addPyFile(str(file))
