"""Queries: output modes, targets, and what a replayed batch or a record of Kafka means."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from penstock.checks.ddl import first_repeated
from penstock.checks.plan_of_pipeline import analyse
from penstock.checks.sql_text import sql_steps, sql_text
from penstock.errors import BuildError
from penstock.model import Finding, Pipeline, Step
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
