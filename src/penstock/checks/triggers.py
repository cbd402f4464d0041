"""Triggers: only some sources, steps and sinks support continuous and real-time queries."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.checks.sql_text import sources_of
from penstock.connector import MICRO_BATCHES
from penstock.model import Finding, Pipeline, Sink
from penstock.options import seconds
from penstock.text import join_words

_MIN_SECONDS = 5
_MIN_SETTING = "spark.sql.streaming.realTimeMode.minBatchDuration"
_MODES = {"continuous": ("append", "update"), "real-time": ("update",)}


def trigger_fits_sink(pipeline: Pipeline) -> Iterator[Finding]:
    """A sink's trigger is one that its connector supports."""
    for sink in pipeline.sinks:
        triggers = sink.native.triggers if sink.native else MICRO_BATCHES
        if sink.trigger.kind not in triggers:
            what = " and ".join(target.connector.kind for target in sink.targets)
            says = f"sink {sink.name!r}: {what} cannot be written with trigger '{sink.trigger}'"
            yield _finding(pipeline, sink, "trigger-fits-sink", says, triggers)


def trigger_fits_sources(pipeline: Pipeline) -> Iterator[Finding]:
    """A sink's trigger is one that all its sources support."""
    for sink in pipeline.sinks:
        for source in sources_of(pipeline, sink.reads):
            if source.static:
                # A table is read before the query starts; what a step may do with it is another rule's.
                continue
            if sink.trigger.kind not in source.connector.triggers:
                kind = source.connector.kind
                says = (
                    f"sink {sink.name!r}: source {source.name!r} ({kind}) cannot be read with trigger '{sink.trigger}'"
                )
                yield _finding(pipeline, sink, "trigger-fits-sources", says, source.connector.triggers)
            elif sink.trigger.is_continuous and source.watermark is not None:
                says = f"sink {sink.name!r}: source {source.name!r} has a watermark, and trigger '{sink.trigger}' none"
                fix = "remove 'watermark', or use a duration like '1 second'"
                yield Finding("trigger-fits-sources", pipeline.where(sink, "trigger"), says, fix)


def trigger_fits_mode(pipeline: Pipeline) -> Iterator[Finding]:
    """A continuous query writes mode append or update, a real-time one mode update."""
    for sink in pipeline.sinks:
        allowed = _MODES.get(sink.trigger.kind, (sink.mode,))
        if sink.mode not in allowed:
            says = f"sink {sink.name!r}: trigger '{sink.trigger}' cannot write mode {sink.mode!r}"
            yield Finding("trigger-fits-mode", pipeline.where(sink, "trigger"), says, f"use mode {join_words(allowed)}")


def trigger_is_long_enough(pipeline: Pipeline) -> Iterator[Finding]:
    """A real-time trigger is at least as long as Spark allows."""
    for sink in pipeline.sinks:
        short = sink.trigger.is_real_time and seconds(sink.trigger.interval) < _MIN_SECONDS
        if short and _MIN_SETTING not in pipeline.spark:
            least = f"the {_MIN_SECONDS} seconds that Spark allows"
            says = f"sink {sink.name!r}: trigger '{sink.trigger}' is shorter than {least}"
            fix = f"use 'real-time {_MIN_SECONDS} seconds'; rows are written as they arrive, not at the end of it"
            yield Finding("trigger-is-long-enough", pipeline.where(sink, "trigger"), says, fix)


def _finding(pipeline: Pipeline, sink: Sink, rule: str, says: str, triggers: frozenset[str]) -> Finding:
    spelled = {
        "default": "default",
        "interval": "a duration like '1 second'",
        "once": "once",
        "available-now": "available-now",
        "continuous": "continuous 1 second",
        "real-time": "real-time 5 seconds",
    }
    fix = f"use {join_words(words for kind, words in spelled.items() if kind in triggers)}"
    return Finding(rule, pipeline.where(sink, "trigger"), says, fix)
