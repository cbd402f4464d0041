"""Spark's verdict on a pipeline, without starting a query.

analyser, streaming and continuous checker, planner, columns of sinks    `check_in`, which asks Spark
real-time mode     asked for its list of operators and its shortest trigger; Spark compares them in the first batch
sources and sinks  transcribed from Spark 4.2: the engine only meets them when a query starts
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.engine.deep_check import _Check
from penstock.engine.prepare import absolute
from penstock.model import Pipeline, Sink
from penstock.options import seconds
from penstock.spark.internals import analyze, class_name, jvm, plan_batch, streaming_leaves, to_list

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SHORTEST = "spark.sql.streaming.realTimeMode.minBatchDuration"

#: Sources that implement ContinuousStream and SupportsRealTimeMode.
_SOURCES = {"continuous": {"kafka", "rate"}, "real-time": {"kafka"}}
#: Sinks with Spark's interface of version 2; RealTimeModeAllowlist has only some of them.
_SINKS = {"continuous": {"console", "memory", "kafka"}, "real-time": {"console", "kafka"}}


def verdict(spark: SparkSession, pipeline: Pipeline, folder: Path) -> str:
    """Spark's first refusal in a sentence, empty if it accepts the pipeline; `folder` is empty."""
    # As `check_in` does, which keeps its DataFrames to itself.
    check = _Check(spark, absolute(pipeline), folder)
    check.run()
    findings = [finding for finding in check.findings if finding.severity == "error"]
    if findings:
        return min(findings, key=lambda finding: finding.at).says
    refusals = (says for sink in pipeline.sinks for says in _refusals(pipeline, sink, check.streams[sink.reads]))
    return next(refusals, "")


def _refusals(pipeline: Pipeline, sink: Sink, rows: DataFrame) -> Iterator[str]:
    if not rows.isStreaming:
        yield f"[WRITE_STREAM_NOT_ALLOWED] sink {sink.name!r} does not read a stream"
        return
    yield from _connector_refusals(pipeline, sink)
    if sink.trigger.is_real_time:
        yield from _real_time_refusals(sink, rows)


def _connector_refusals(pipeline: Pipeline, sink: Sink) -> Iterator[str]:
    kind = sink.native.kind if sink.native else "foreachBatch"
    if kind == "files" and sink.mode != "append":
        # DataSource.createSink
        yield f"connector: files do not support mode {sink.mode}"
    if sink.trigger.has_micro_batches:
        return
    if kind not in _SINKS[sink.trigger.kind]:
        # DataStreamWriter.startInternal, MicroBatchExecution
        yield f"connector: {kind} does not support trigger {sink.trigger.kind}"
    for name in pipeline.upstream(sink.reads):
        source = next((each for each in pipeline.sources if each.name == name and not each.static), None)
        if source is not None and source.connector.kind not in _SOURCES[sink.trigger.kind]:
            # ContinuousExecution, MicroBatchExecution
            yield f"connector: source {source.connector.kind} does not support trigger {sink.trigger.kind}"


def _real_time_refusals(sink: Sink, rows: DataFrame) -> Iterator[str]:
    """What StreamingQueryManager and MicroBatchExecution compare, in their order."""
    spark = rows.sparkSession
    shortest = spark._jsparkSession.conf().get(_SHORTEST)
    shortest_milliseconds = jvm(spark).org.apache.spark.network.util.JavaUtils.timeStringAsMs(shortest)
    if seconds(sink.trigger.interval) * 1000 < shortest_milliseconds:
        yield f"[INVALID_STREAMING_REAL_TIME_MODE_TRIGGER_INTERVAL] {sink.trigger} is shorter than Spark allows"
    # MicroBatchExecution makes one stream of relations that are equal, their attributes included.
    if any(one.equals(other) for one, other in combinations(streaming_leaves(analyze(rows)), 2)):
        yield "[STREAMING_REAL_TIME_MODE.IDENTICAL_SOURCES_IN_UNION_NOT_SUPPORTED] a source is read twice"
    allowed = _allowed_operators(spark)
    plan = plan_batch(rows).executedPlan()
    if class_name(plan) == "AdaptiveSparkPlanExec":
        # A leaf that hides the plan; queries run without it.
        plan = plan.initialPlan()
    operators = {str(node.getClass().getName()) for node in _streaming_nodes(plan)}
    for name in sorted(each for each in operators if not allowed.contains(each)):
        short = name.rpartition(".")[2]
        yield f"[STREAMING_REAL_TIME_MODE.OPERATOR_OR_SINK_NOT_IN_ALLOWLIST] operator {short}"


def _allowed_operators(spark: SparkSession) -> Any:
    """Spark's own set; `checkAllowedPhysicalOperator` sees only plans of a running batch."""
    runtime = jvm(spark).org.apache.spark.sql.execution.streaming.runtime
    allowlist = getattr(getattr(runtime, "RealTimeModeAllowlist$"), "MODULE$")
    # Scala compiles a private member that a closure reads to a public method with this name.
    prefix = "org$apache$spark$sql$execution$streaming$runtime$RealTimeModeAllowlist"
    return getattr(allowlist, f"{prefix}$$allowedOperators")()


def _streaming_nodes(plan: Any) -> list[Any]:
    """The nodes above a stream, without the streams, as RealTimeModeAllowlist collects them."""
    found: list[Any] = []

    def has_stream(node: Any) -> bool:
        if class_name(node) == "StreamingRelationExec":
            return True
        # Every child is walked, also after a first that has one.
        are_streaming = [has_stream(child) for child in to_list(node.children())]
        if not any(are_streaming):
            return False
        found.append(node)
        return True

    has_stream(plan)
    return found
