"""Queries: output modes, triggers, targets, and what a replayed batch or a record of Kafka means."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from penstock.checks.ddl import first_repeated
from penstock.checks.plan_of_pipeline import analyse
from penstock.checks.sql_text import sources_of, sql_steps, sql_text
from penstock.connector import MICRO_BATCHES
from penstock.errors import BuildError
from penstock.model import Finding, Pipeline, Sink, Step
from penstock.options import seconds
from penstock.sql import Token, parse
from penstock.text import join_words


def mode_fits_sink(pipeline: Pipeline) -> Iterator[Finding]:
    """A sink's output mode is one that its connector supports."""
    for sink in pipeline.sinks:
        for target in sink.targets:
            modes = target.connector.modes
            if sink.mode not in modes:
                says = f"sink {sink.name!r}: {target.connector.kind} cannot write mode {sink.mode!r}"
                yield Finding("mode-fits-sink", pipeline.where(sink, "mode"), says, f"use {join_words(sorted(modes))}")
            elif (problem := target.connector.refuses_mode(sink.mode)) is not None:
                yield Finding("mode-fits-sink", pipeline.where(sink, *target.keys), f"sink {sink.name!r}: {problem}")


def targets_can_share(pipeline: Pipeline) -> Iterator[Finding]:
    """Every connector of a sink with several targets supports that."""
    for sink in pipeline.sinks:
        for target in sink.targets:
            if not sink.native and not target.connector.can_share:
                says = f"sink {sink.name!r}: {target.connector.kind} must be the only target and get all rows"
                at = pipeline.where(sink, *target.keys)
                yield Finding("targets-can-share", at, says, "give it a separate sink")


# Each returns something else when a batch is replayed; now() does not: it is the batch time in the offset log.
_NONDETERMINISTIC = frozenset(
    {"uuid", "rand", "random", "randn", "randstr", "uniform", "shuffle", "spark_partition_id"}
    | {"monotonically_increasing_id"}
)


def columns_fit_sink(pipeline: Pipeline) -> Iterator[Finding]:
    """A target can hold the columns that it gets, and has those that its options name."""
    found = analyse(pipeline)
    for sink in pipeline.sinks:
        for target in sink.targets:
            selection = f"{sink.name}.{target.name}" if target.sql(sink.reads) else sink.reads
            plan = found.plans.get(selection)
            if plan is None or plan.columns is None or target.connector.runs_user_code:
                continue
            if target.connector.refuses_mode(sink.mode):
                # Reported by mode_fits_sink.
                continue
            named = f"sink {sink.name!r}:" + (f" target {target.name!r}:" if len(sink.targets) > 1 else "")
            twice = first_repeated(column.name for column in plan.columns if column.name)
            if twice is not None:
                says = f"{named} its rows have two columns {twice!r}"
                yield Finding("columns-fit-sink", target.at, says, "name one of them differently: AS other")
                continue
            if any(not column.name for column in plan.columns):
                continue
            try:
                target.connector.check_columns({each.name: str(each.type or "") for each in plan.columns}, sink.mode)
            except BuildError as error:
                says, _, fix = str(error).partition("; ")
                yield Finding("columns-fit-sink", target.at, f"{named} {says}", fix)


def keys_come_again(pipeline: Pipeline) -> Iterator[Finding]:
    """Rows that are upserted by key come from deterministic steps."""
    for sink in pipeline.sinks:
        targets = [target for target in sink.targets if target.connector.upserts]
        if not targets:
            continue
        names = {*pipeline.upstream(sink.reads), *(f"{sink.name}.{target.name}" for target in targets)}
        for step, text in sql_steps(pipeline):
            call = _find_nondeterministic_call(text) if step.name in names else None
            if call is not None:
                says = f"step {step.name!r} calls {call.name}(), which returns other values when a batch is replayed"
                why = f"sink {sink.name!r} ({targets[0].connector.kind}) would then contain both rows"
                fix = "build the key from the record: with 'metadata: true', from its topic, partition and offset"
                yield Finding("keys-come-again", step.locate(call.start), f"{says}; {why}", fix)


def _find_nondeterministic_call(text: str) -> Token | None:
    calls = (first for first, second in pairwise(parse(text).tokens) if first.is_name and second.text == "(")
    return next((call for call in calls if call.name.lower() in _NONDETERMINISTIC), None)


def columns_mean_what_they_say(pipeline: Pipeline) -> Iterator[Finding]:
    """Rows with the columns `key` and `value` become records with that key and that value."""
    for sink in pipeline.sinks:
        node = pipeline.streams.get(sink.reads)
        columns = _columns(node) if isinstance(node, Step) else []
        for target in sink.targets:
            found = target.connector.columns_warning(columns) if columns and not target.select else None
            if found is not None:
                says = f"sink {sink.name!r}: {target.connector.kind} {found[0]}"
                yield Finding("columns-mean-what-they-say", target.at, says, found[1], severity="warning")


def _columns(step: Step) -> list[str]:
    """The columns that a step selects; empty if unknown without Spark."""
    from sqlglot import exp

    text = sql_text(step)
    tree = None if text is None else parse(text).tree
    names = [str(name) for name in tree.named_selects] if isinstance(tree, exp.Query) else []
    return names if all(names) and "*" not in names else []


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
