"""Replays: a batch replayed after a crash has the same keys."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from penstock.checks.texts import locate_line, sql_steps
from penstock.model import Finding, Pipeline
from penstock.sql import Token, parse

# Each returns something else when a batch is replayed; now() does not: it is the batch time in the offset log.
_NONDETERMINISTIC = frozenset(
    {"uuid", "rand", "random", "randn", "randstr", "uniform", "shuffle", "spark_partition_id"}
    | {"monotonically_increasing_id"}
)


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
                yield Finding("keys-come-again", locate_line(step, call.line), f"{says}; {why}", fix)


def _find_nondeterministic_call(text: str) -> Token | None:
    calls = (first for first, second in pairwise(parse(text).tokens) if first.is_name and second.text == "(")
    return next((call for call in calls if call.name.lower() in _NONDETERMINISTIC), None)
