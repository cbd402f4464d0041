"""Records: the columns of a sink's rows mean what their names suggest."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.checks.texts import sql_text
from penstock.model import Finding, Pipeline, Step
from penstock.sql import parse


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
