"""Converts a document to a pipeline and reports everything wrong with it at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.errors import LoadError
from penstock.load.nodes import check_unique_names, read_section, read_sink, read_source, read_step
from penstock.load.reader import Document, Reader, sort_by_location
from penstock.load.settings import (
    read_history,
    read_listeners,
    read_name,
    read_restart,
    read_spark,
    read_state_limit,
    read_storage,
    read_tests,
    read_watermarks,
    read_webhooks,
)
from penstock.load.validate import suggest_key
from penstock.load.variables import check_secrets
from penstock.model import Finding, Pipeline

__all__ = ["Document", "to_pipeline"]

#: The keys of a file and their descriptions.
KEYS = {
    "name": "The pipeline's name; by default the file's. Letters, digits, `-` and `_`.",
    "sources": "Input streams and static tables, by name.",
    "steps": "Transformations, by name; optional.",
    "sinks": "Where rows go, by name; each is one streaming query with its own checkpoint.",
    "tests": "Tests on example rows; or in `NAME_test.yaml` next to the file.",
    "spark": "Spark settings under Spark's own names, and `master`.",
    "storage": "Where checkpoints, events and logs are kept; by default `.penstock` next to the file.",
    "watermarks": "`min`, the default, or `max`: which of several watermarks in one query applies.",
    "state_limit": "Warn when the state of a query exceeds this size, like `2 GB`; by default half of the memory.",
    "secrets": 'Where `${secret:name}` comes from: `{python: "module:function"}`.',
    "restart": "How a failed pipeline is restarted.",
    "history": "How long events are kept, like `30 days`; a week by default.",
    "listeners": 'Your StreamingQueryListener classes: `["module:Class"]`.',
    "webhooks": "Addresses that events are posted to.",
}
_NEEDED = {"sources": "where rows come from", "sinks": "where rows go to"}


def to_pipeline(document: Document, found: Sequence[Finding] = ()) -> Pipeline:
    """Build the pipeline; a LoadError has every finding, including the earlier ones in `found`, in file order."""
    reader = Reader(document, list(found))
    _check_keys(reader)
    pipeline = Pipeline(
        name=read_name(reader),
        at=document.place(()),
        sources=read_section(reader, "sources", read_source),
        steps=read_section(reader, "steps", read_step),
        sinks=read_section(reader, "sinks", read_sink),
        folder=document.folder,
        storage=read_storage(reader),
        spark={**read_spark(reader), **read_watermarks(reader)},
        state_limit=read_state_limit(reader),
        tests=read_tests(reader),
        restart=read_restart(reader),
        history_seconds=read_history(reader),
        listeners=read_listeners(reader),
        webhooks=read_webhooks(reader),
        places=document.places,
        silences=document.silences,
    )
    check_unique_names(reader)
    check_secrets(reader)
    if reader.findings:
        raise LoadError(sort_by_location(reader.findings))
    return pipeline


def _check_keys(reader: Reader) -> None:
    values = reader.document.values
    for key in values:
        if key not in KEYS:
            reader.report("unknown-key", (key,), f"unknown key {key!r}", suggest_key(str(key), KEYS))
    for key, what in _NEEDED.items():
        if values.get(key) is None or (isinstance(values[key], Mapping) and not values[key]):
            reader.report("missing-key", (key,), f"the pipeline has no {key}", f"add '{key}:', {what}")
