"""Replays: a batch that is read again after a crash has the same keys again."""

from __future__ import annotations

import re
from collections.abc import Iterator

from penstock.checks.texts import in_text, sql_steps
from penstock.model import Finding, Pipeline

# Each gives something else when a batch is run again; not so now(), which is the time of the batch in its offset log.
_CHANGING = re.compile(
    r"\b(uuid|rand|random|randn|randstr|uniform|shuffle|monotonically_increasing_id|spark_partition_id)\s*\(",
    re.IGNORECASE,
)


def keys_come_again(pipeline: Pipeline) -> Iterator[Finding]:
    """Rows that are upserted by key are made by steps that make the same rows from the same records."""
    for sink in pipeline.sinks:
        targets = [target for target in sink.targets if target.connector.upserts]
        if not targets:
            continue
        names = {*pipeline.upstream(sink.reads), *(f"{sink.name}.{target.name}" for target in targets)}
        for step, text in sql_steps(pipeline):
            match = _CHANGING.search(text) if step.name in names else None
            if match is not None:
                says = f"step {step.name!r} calls {match[1]}(), which gives other rows when a batch is replayed"
                why = f"sink {sink.name!r} ({targets[0].connector.kind}) would then have both"
                fix = "make the key of what the record has: with 'metadata: true', its topic, partition and offset"
                line = text.count("\n", 0, match.start()) + 1
                yield Finding("keys-come-again", in_text(step, line), f"{says}; {why}", fix)
