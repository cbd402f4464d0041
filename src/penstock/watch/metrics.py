"""Views as Prometheus metrics. Labels are names from the pipeline's file, so their cardinality is bounded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from penstock.events import State
from penstock.watch.snapshot import PHASES
from penstock.watch.views import PipelineView, QueryView

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
STATES: tuple[State, ...] = get_args(State)

Sample = tuple[dict[str, str], float]


@dataclass(frozen=True)
class Metric:
    """One metric: its name, its type and what it measures."""

    name: str
    kind: Literal["gauge", "counter"]
    help: str
    labels: tuple[str, ...] = ("pipeline", "sink")


_PIPELINE = ("pipeline",)
_SOURCE = ("pipeline", "sink", "source")

METRICS = (
    Metric("penstock_pipeline_up", "gauge", "1 while the queries run, 0 otherwise.", _PIPELINE),
    Metric(
        "penstock_pipeline_state",
        "gauge",
        "1 for the current state, 0 for the others.",
        ("pipeline", "state"),
    ),
    Metric("penstock_pipeline_starts_total", "counter", "How often the queries were started.", _PIPELINE),
    Metric("penstock_pipeline_restarts_total", "counter", "How often the driver was restarted.", _PIPELINE),
    Metric("penstock_pipeline_failures_total", "counter", "How often a query failed.", _PIPELINE),
    Metric("penstock_query_batch_id", "gauge", "The id of the last batch."),
    Metric("penstock_query_last_batch_timestamp_seconds", "gauge", "When Spark reported the last batch."),
    Metric("penstock_query_batches_total", "counter", "Batches with input rows."),
    Metric("penstock_query_batch_duration_seconds", "gauge", "How long the last batch took."),
    Metric(
        "penstock_query_phase_duration_seconds",
        "gauge",
        "Where the time of the last batch went.",
        ("pipeline", "sink", "phase"),
    ),
    Metric("penstock_query_input_rows_total", "counter", "Rows read, by source.", _SOURCE),
    Metric("penstock_query_output_rows_total", "counter", "Rows written, for sinks that report it."),
    Metric("penstock_query_input_rows_per_second", "gauge", "Input rate of the last batch."),
    Metric("penstock_query_processed_rows_per_second", "gauge", "Processing rate of the last batch."),
    Metric("penstock_query_rows_behind", "gauge", "Rows available but not read yet, by source.", _SOURCE),
    Metric(
        "penstock_query_max_partition_rows_behind",
        "gauge",
        "The same for the partition with the most.",
        _SOURCE,
    ),
    Metric("penstock_query_seconds_behind", "gauge", "How far the query is behind in time."),
    Metric("penstock_query_watermark_delay_seconds", "gauge", "How far the watermark is behind the clock."),
    Metric("penstock_query_state_rows", "gauge", "Rows in the state store."),
    Metric("penstock_query_state_memory_bytes", "gauge", "Memory used by state."),
    Metric("penstock_query_state_disk_bytes", "gauge", "State on disk."),
    Metric("penstock_query_late_rows_total", "counter", "Rows dropped because they arrived after the watermark."),
    Metric("penstock_query_bad_records_total", "counter", "Records that could not be decoded, by source.", _SOURCE),
    Metric("penstock_query_missed_rows_total", "counter", "Rows that an optional target did not get."),
    Metric("penstock_query_restarts_total", "counter", "How often the query was restarted alone."),
)


def prometheus(views: Iterable[PipelineView]) -> str:
    """Every metric of every pipeline in Prometheus' text format."""
    views = list(views)
    lines: list[str] = []
    for metric in METRICS:
        samples = [sample for view in views for sample in _samples(metric.name, view)]
        if samples:
            lines += [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.kind}"]
            lines += [f"{metric.name}{{{_format_labels(labels)}}} {_format_number(value)}" for labels, value in samples]
    return "\n".join([*lines, ""])


def _samples(name: str, view: PipelineView) -> Iterator[Sample]:
    label = {"pipeline": view.name}
    whole = {
        "penstock_pipeline_up": float(view.is_up),
        "penstock_pipeline_starts_total": view.starts,
        "penstock_pipeline_restarts_total": view.restarts,
        "penstock_pipeline_failures_total": view.failures,
    }
    if name in whole:
        yield label, whole[name]
    elif name == "penstock_pipeline_state":
        yield from (({**label, "state": state}, float(state == view.state)) for state in STATES)
    else:
        for query in view.queries:
            yield from _query_samples(name, {**label, "sink": query.sink}, query)


def _query_samples(name: str, label: dict[str, str], query: QueryView) -> Iterator[Sample]:
    plain: dict[str, float | None] = {
        "penstock_query_batch_id": query.batch,
        "penstock_query_last_batch_timestamp_seconds": query.at or None,
        "penstock_query_batches_total": query.batches,
        "penstock_query_batch_duration_seconds": query.seconds,
        "penstock_query_output_rows_total": query.rows_out,
        "penstock_query_input_rows_per_second": query.input_per_second,
        "penstock_query_processed_rows_per_second": query.processed_per_second,
        "penstock_query_seconds_behind": query.seconds_behind,
        "penstock_query_watermark_delay_seconds": query.watermark_delay_seconds,
        "penstock_query_state_rows": query.state_rows,
        "penstock_query_state_memory_bytes": query.state_memory_bytes,
        "penstock_query_state_disk_bytes": query.state_disk_bytes,
        "penstock_query_late_rows_total": query.late_rows,
        "penstock_query_missed_rows_total": query.missed_rows,
        "penstock_query_restarts_total": query.restarts,
    }
    by_source: dict[str, dict[str, float]] = {
        "penstock_query_input_rows_total": dict(query.rows_in_by_source),
        "penstock_query_bad_records_total": dict(query.bad_records),
        "penstock_query_rows_behind": {source: sum(each.values()) for source, each in query.behind.items()},
        "penstock_query_max_partition_rows_behind": {
            source: max(each.values(), default=0) for source, each in query.behind.items()
        },
    }
    if name == "penstock_query_phase_duration_seconds":
        yield from (({**label, "phase": phase}, query.phases.get(phase, 0.0)) for phase in PHASES if query.phases)
    elif name in by_source:
        yield from (({**label, "source": source}, value) for source, value in by_source[name].items())
    else:
        value = plain[name]
        if value is not None:
            yield label, value


def _format_labels(labels: dict[str, str]) -> str:
    return ",".join(f'{name}="{_escape(value)}"' for name, value in labels.items())


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _format_number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))
