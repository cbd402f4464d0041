"""A document becomes a pipeline; everything that is wrong with it is found at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.errors import LoadError
from penstock.load.nodes import read_sink, read_source, read_step
from penstock.load.reading import Document, Reader, in_file_order
from penstock.load.secrets import check_secrets
from penstock.load.sections import check_names_differ, read_section
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
from penstock.load.spark_words import suggest_key
from penstock.model import Finding, Pipeline

__all__ = ["Document", "to_pipeline"]

#: The keys of a file, and what each says.
KEYS = {
    "name": "The pipeline's name; by default the file's. Letters, digits, `-` and `_`.",
    "sources": "Streams that come in, and tables beside them, by name.",
    "steps": "Rows made from other rows, by name; may be left out.",
    "sinks": "Where rows go, by name; each is one streaming query with its own checkpoint.",
    "tests": "Tests on example rows; or in `NAME_test.yaml` beside the file.",
    "spark": "Spark settings as Spark spells them, and `master`.",
    "storage": "Where checkpoints, events and logs are kept; by default `.penstock` beside the file.",
    "watermarks": "`min`, the default, or `max`: which of several watermarks of one query counts.",
    "state_limit": "Say so when a query has more state than this, like `2 GB`; half of the memory by default.",
    "secrets": 'Where `${secret:name}` comes from: `{python: "module:function"}`.',
    "restart": "When a pipeline that failed is started again.",
    "history": "How long events are kept, like `30 days`; a week by default.",
    "listeners": 'Classes of yours that Spark tells what happens: `["module:Class"]`.',
    "webhooks": "Addresses that events are posted to.",
}
_NEEDED = {"sources": "where rows come from", "sinks": "where rows go to"}


def to_pipeline(document: Document, found: Sequence[Finding] = ()) -> Pipeline:
    """The pipeline, or a LoadError with every finding, those `found` before included, in file order."""
    reading = Reader(document, list(found))
    _check_keys(reading)
    pipeline = Pipeline(
        name=read_name(reading),
        at=document.place(()),
        sources=read_section(reading, "sources", read_source),
        steps=read_section(reading, "steps", read_step),
        sinks=read_section(reading, "sinks", read_sink),
        folder=document.folder,
        storage=read_storage(reading),
        spark={**read_spark(reading), **read_watermarks(reading)},
        state_limit=read_state_limit(reading),
        tests=read_tests(reading),
        restart=read_restart(reading),
        history_seconds=read_history(reading),
        listeners=read_listeners(reading),
        webhooks=read_webhooks(reading),
        places=document.places,
    )
    check_names_differ(reading)
    check_secrets(reading)
    if reading.findings:
        raise LoadError(in_file_order(reading.findings))
    return pipeline


def _check_keys(reading: Reader) -> None:
    values = reading.document.values
    for key in values:
        if key not in KEYS:
            reading.found("unknown-key", (key,), f"a pipeline does not know {key!r}", suggest_key(str(key), KEYS))
    for key, what in _NEEDED.items():
        if values.get(key) is None or (isinstance(values[key], Mapping) and not values[key]):
            reading.found("missing-key", (key,), f"the pipeline has no {key}", f"add '{key}:', {what}")
