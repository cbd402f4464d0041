"""Replays: a batch that is read again after a crash has the same keys again."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from penstock.checks.texts import in_text, sql_steps
from penstock.model import Finding, Pipeline
from penstock.sql import Token, parse

# Each gives something else when a batch is run again; not so now(), which is the time of the batch in its offset log.
_CHANGING = frozenset(
    {"uuid", "rand", "random", "randn", "randstr", "uniform", "shuffle", "spark_partition_id"}
    | {"monotonically_increasing_id"}
)


def keys_come_again(pipeline: Pipeline) -> Iterator[Finding]:
    """Rows that are upserted by key are made by steps that make the same rows from the same records."""
    for sink in pipeline.sinks:
        targets = [target for target in sink.targets if target.connector.upserts]
        if not targets:
            continue
        names = {*pipeline.upstream(sink.reads), *(f"{sink.name}.{target.name}" for target in targets)}
        for step, text in sql_steps(pipeline):
            call = _changing_call(text) if step.name in names else None
            if call is not None:
                says = f"step {step.name!r} calls {call.name}(), which gives other rows when a batch is replayed"
                why = f"sink {sink.name!r} ({targets[0].connector.kind}) would then have both"
                fix = "make the key of what the record has: with 'metadata: true', its topic, partition and offset"
                yield Finding("keys-come-again", in_text(step, call.line), f"{says}; {why}", fix)


def _changing_call(text: str) -> Token | None:
    calls = (first for first, second in pairwise(parse(text).tokens) if first.is_name and second.text == "(")
    return next((call for call in calls if call.name.lower() in _CHANGING), None)
