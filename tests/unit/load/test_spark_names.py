"""Spark's own names of options are recognised, and lead to the name here."""

from __future__ import annotations

import pytest

from penstock.connectors import SINKS, SOURCES
from penstock.load import nodes
from penstock.load.validate import _NAMES, option_names

SINK = "sinks: {b: {from: a, console: }}\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "sources: {a: {kafka: {servers: x, subscribe: t}}}\n" + SINK,
            "clicks.yaml:1:35: source 'a': unknown key 'subscribe'; here it is called 'topics'",
        ),
        (
            "sources: {a: {kafka: {kafka.bootstrap.servers: x, topics: t}}}\n" + SINK,
            "clicks.yaml:1:23: source 'a': unknown key 'kafka.bootstrap.servers'; here it is called 'servers'",
        ),
        (
            "sources: {a: {rate: , startingOffsets: earliest}}\n" + SINK,
            "clicks.yaml:1:23: source 'a': unknown key 'startingOffsets'; "
            "here it is called 'start', an option of the connector",
        ),
        (
            "sources: {a: {files: {path: in, cleanSource: delete}}}\n" + SINK,
            "clicks.yaml:1:33: source 'a': unknown key 'cleanSource'; here it is called 'after_read'",
        ),
        (
            "sources: {a: {format: kafka}}\n" + SINK,
            "clicks.yaml:1:15: source 'a': unknown key 'format'; "
            "here the connector is the key: write 'kafka: {...}', or 'files: {format: csv, ...}'",
        ),
        (
            "sources: {a: {rate: }}\nsinks: {b: {from: a, console: , outputMode: update}}\n",
            "clicks.yaml:2:33: sink 'b': unknown key 'outputMode'; here it is called 'mode'",
        ),
        (
            "sources: {a: {rate: }}\nsinks: {b: {from: a, to: [{console: }], processingTime: 1 minute}}\n",
            "clicks.yaml:2:41: sink 'b': unknown key 'processingTime'; here it is called 'trigger'",
        ),
        (
            "sources: {a: {rate: }}\nsinks: {b: {from: a, console: , queryName: q}}\n",
            "clicks.yaml:2:33: sink 'b': unknown key 'queryName'; here it is the sink's own name",
        ),
        (
            "sources: {a: {rate: }}\ncheckpointLocation: x\n" + SINK,
            "clicks.yaml:2:1: unknown key 'checkpointLocation'; "
            "here it is called 'storage', a key of the file; each sink has its own checkpoint in it",
        ),
    ],
)
def test_a_name_of_spark_leads_to_ours(complaints, text, says):
    assert complaints(text)[0] == says


def test_a_name_of_spark_is_one_finding_not_also_a_missing_key(complaints):
    text = "sources: {a: {kafka: {bootstrap.servers: x, topics: t}}}\n" + SINK

    assert len(complaints(text)) == 1


def test_the_names_that_are_offered_exist():
    connectors = {name for made in (*SOURCES.values(), *SINKS.values()) for name in option_names(made)}
    settings = {
        name for made in (nodes._SourceSettings, nodes._Watermark, nodes._SinkSettings) for name in option_names(made)
    }

    assert {name for name, _ in _NAMES.values()} - connectors - settings == set()
