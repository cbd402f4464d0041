"""What a document says about nodes, and what is said when it is wrong."""

from __future__ import annotations

import pytest

from penstock.connectors import SINKS, SOURCES
from penstock.errors import LoadError
from penstock.load.document import Document, to_pipeline
from penstock.model import Decode, Location, Trigger
from penstock.text import join_words

SINK = "sinks: {b: {from: a, console: }}\n"


def made(**values):
    """A pipeline of plain Python values."""
    nodes = {"sources": {"a": {"rate": None}}, "sinks": {"b": {"from": "a", "console": None}}}
    return to_pipeline(Document({**nodes, **values}, "clicks.yaml"))


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("files: {paht: in}", "source 'a': unknown key 'paht'; did you mean 'path'?"),
        ("kafak: {}", "source 'a': unknown key 'kafak'; did you mean 'kafka'?"),
        ("zzz: {}", None),
        ("kafka: {topics: [t]}", "source 'a' (kafka) needs 'servers'; comma-separated host:port list, or 'embedded'"),
        (
            "kafka: {servers: x, topics: [t], records_per_trigger: ten}",
            "source 'a': 'records_per_trigger' is 'ten', expected a whole number",
        ),
        (
            "kafka: {servers: x, topics: [t], on_data_loss: skipp}",
            "source 'a': 'on_data_loss' is 'skipp', expected fail, skip or earliest; did you mean 'skip'?",
        ),
        ("kafka: {servers: x}", "source 'a': give one of 'topics', 'pattern' and 'partitions'; found none of them"),
        ("socket: {port: 70000}", "source 'a': 'port' is 70000, expected 65535 or less"),
        ("socket: {port: 1, host: 5}", "source 'a': 'host' is 5, expected text; put it in quotes"),
        (
            "rate: 5",
            "source 'a': 'rate' is 5, expected a mapping of options; its options are options, rows_per_second, ",
        ),
        ("metadata: true", f"source 'a' has no kind; add one of {join_words(sorted(SOURCES))}"),
        ("{rate: , socket: {port: 1}}", "source 'a' is rate and socket at once; keep one of them"),
        ("{rate: , metadata: yes}", "source 'a': 'metadata' is 'yes', expected true or false"),
        ("{rate: , watermark: {column: t}}", "source 'a' needs 'watermark.delay'; add 'watermark.delay: ...'"),
        (
            "{rate: , watermark: {column: t, delay: soon}}",
            "source 'a': 'soon' is not a duration; write a number and a unit, like '10 minutes'",
        ),
        (
            "{rate: , watermark: {column: t, delay: 1 minute, max_ahead: never}}",
            "source 'a': 'never' is not a duration; write a number and a unit, like '10 minutes'",
        ),
        ("{rate: , watermark: 5 minutes}", "source 'a': 'watermark' is '5 minutes', expected a mapping"),
        ("{rate: , json: a int, csv: a int}", "source 'a' is decoded in 2 ways, json and csv; keep one of them"),
        ("{rate: , json: }", "source 'a': 'json' is empty, expected columns; write 'json: id long, name string'"),
        (
            "{rate: , key: text}",
            "source 'a': 'key' is 'text', expected string, bytes or a mapping with a format; write 'key: {json: ...}'",
        ),
        ("{rate: , value: {}}", "source 'a': 'value' needs one of json, csv or avro; found none"),
        (
            "{rate: , value: {json: a int, registry_header: true}}",
            "source 'a': unknown key 'registry_header' in 'value'; use json or options",
        ),
        (
            "{rate: , avro: nope.avsc}",
            "source 'a': no schema file 'nope.avsc'; give the path of an .avsc file, relative to the pipeline's file",
        ),
        (
            "{rate: , avro: '{'}",
            "source 'a': the schema is not JSON (Expecting property name enclosed in double quotes)",
        ),
    ],
)
def test_a_wrong_source_is_said_in_a_sentence(complaints, source, says):
    indented = source if source.startswith("{") else f"\n    {source}"

    found = complaints(f"sources:\n  a: {indented}\n{SINK}")

    wanted = says or "source 'a': unknown key 'zzz'; use avro, bad_records, cassandra, csv, delta, eventhubs, "
    assert len(found) == 1
    assert found[0].partition(": ")[2].startswith(wanted)


@pytest.mark.parametrize(
    ("sink", "says"),
    [
        ("{console: }", "3: sink 'b' needs 'from'; the source or step whose rows are written"),
        ("{form: a, console: }", "7: sink 'b': unknown key 'form'; did you mean 'from'?"),
        ("{from: a}", f"3: sink 'b' has no kind; add one of {join_words(sorted(SINKS))}"),
        (
            "{from: a, console: , mode: upsert}",
            "27: sink 'b': 'mode' is 'upsert', expected append, update or complete",
        ),
        (
            "{from: a, console: , trigger: often}",
            "27: sink 'b': 'often' is not a trigger; write default, a duration like '1 minute', once, available-now, "
            "continuous 1 second or real-time 5 seconds",
        ),
        ("a", "3: sink 'b' is 'a', expected a mapping with 'from' and a connector; "),
    ],
)
def test_a_wrong_sink_is_said_in_a_sentence(complaints, sink, says):
    (found,) = complaints(f"sources: {{a: {{rate: }}}}\nsinks:\n  b: {sink}\n")

    assert found.startswith(f"clicks.yaml:3:{says}")


@pytest.mark.parametrize(
    ("step", "says"),
    [
        (
            "5",
            "3: step 's' is 5, expected SQL or a mapping; "
            "write 'name: SELECT ...' or 'name: {python: module:function}'",
        ),
        ("''", "3: step 's': 'sql' is '', expected a SELECT"),
        ("{sql: [x]}", "7: step 's': 'sql' is a list, expected a SELECT"),
        ("{pyhton: m:f}", "7: step 's': unknown key 'pyhton'; did you mean 'python'?"),
        ("{python: f, reads: [a]}", "7: step 's': 'python' is 'f', expected a function, written 'module:function'"),
        ("{python: 'm:f'}", "7: step 's' reads nothing; add 'reads: [name]', the inputs of the function"),
        ("{sql: SELECT 1, python: 'm:f'}", "22: step 's' is sql and python at once; keep one of them"),
        ("{sql: SELECT 1, reads: [a]}", "22: step 's' reads the tables in its SQL; remove 'reads'"),
    ],
)
def test_a_wrong_step_is_said_in_a_sentence(complaints, step, says):
    (found,) = complaints(f"sources: {{a: {{rate: }}}}\nsteps:\n  s: {step}\n{SINK}")

    assert found.startswith(f"clicks.yaml:3:{says}")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("snks: {}\n", "1: unknown key 'snks'; did you mean 'sinks'?"),
        ("name: ../x\n", "1: the name '../x' cannot name a pipeline; use letters, digits, '_' and '-', at most 64"),
        ("storage: [x]\n", "1: 'storage' is a list, expected a folder or a URL; write 'storage: /data/penstock'"),
        (
            "spark: {spark.ssl.keyPassword: x}\n",
            "9: the Spark setting 'spark.ssl.keyPassword' holds a secret, and settings are visible in the "
            "process list; "
            "put it in spark-defaults.conf, or in the credentials file of the system",
        ),
        ("spark: {spark.x: {y: 1}}\n", "9: the Spark setting 'spark.x' is a mapping, expected one value"),
        (
            "spark: {executor.memory: 1g}\n",
            "9: the Spark setting 'executor.memory' does not start with 'spark.', so Spark would ignore it; "
            "write 'spark.executor.memory', or 'master' for where Spark runs",
        ),
        ("steps: [x]\n", "1: 'steps' is a list, expected a mapping of names; write 'steps:' and below it 'name: ...'"),
        ("tests: {a: 1}\n", "1: 'tests' is a mapping, expected a list of tests; write '- name: ...' below it"),
        ("tests: [1]\n", "9: a test is 1, expected a mapping; write 'name', 'given' and 'expect'"),
    ],
)
def test_a_wrong_top_level_key_is_said_in_a_sentence(complaints, text, says):
    assert complaints(f"sources: {{a: {{rate: }}}}\n{SINK}{text}") == [f"clicks.yaml:3:{says}"]


def test_a_pipeline_without_sources_and_sinks_is_none(complaints):
    assert complaints("name: x\nsinks: {}\n") == [
        "clicks.yaml:1:1: the pipeline has no sources; add 'sources:', where rows come from",
        "clicks.yaml:2:1: the pipeline has no sinks; add 'sinks:', where rows go to",
    ]


def test_names_differ_even_where_sql_sees_no_difference(complaints):
    found = complaints("sources:\n  a: {rate: }\nsteps:\n  A: SELECT 1\nsinks:\n  a: {from: a, console: }\n")

    assert found == [
        "clicks.yaml:4:3: step 'A' has the same name as source 'a' on line 2; give each its own name",
        "clicks.yaml:6:3: sink 'a' has the same name as source 'a' on line 2; give each its own name",
    ]


@pytest.mark.parametrize("name", ["9a", "a-b", "a b", "../x", "a" * 65])
def test_a_name_that_sql_cannot_use_is_refused(complaints, name):
    (found,) = complaints(f"sources:\n  a: {{rate: }}\n  {name}: {{rate: }}\n{SINK}")

    assert found.startswith(f"clicks.yaml:3:3: source '{name[:60]}'")
    assert found.endswith(
        " has a name that SQL cannot use; use letters, digits and '_', at most 64, not starting with a digit"
    )


def test_everything_wrong_is_said_at_once_in_file_order(complaints):
    found = complaints("sinks: {b: {from: a, consol: }}\nsources:\n  a: {rate: {x: 1}}\nnmae: x\n")

    assert [line.partition(": ")[0] for line in found] == ["clicks.yaml:1:22", "clicks.yaml:3:14", "clicks.yaml:4:1"]


def test_the_file_names_the_pipeline():
    assert made().name == "clicks"


@pytest.mark.parametrize(
    ("text", "trigger"),
    [
        ("default", Trigger()),
        ("10 seconds", Trigger("interval", "10 seconds")),
        ("once", Trigger("once")),
        ("available-now", Trigger("available-now")),
        ("continuous 1 second", Trigger("continuous", "1 second")),
        ("real-time 5 seconds", Trigger("real-time", "5 seconds")),
    ],
)
def test_a_trigger_is_said_in_words(text, trigger):
    assert made(sinks={"b": {"from": "a", "console": None, "trigger": text}}).sinks[0].trigger == trigger


@pytest.mark.parametrize(
    ("said", "decode"),
    [
        ({"json": "a int"}, Decode("json", "a int")),
        ({"csv": "a int"}, Decode("csv", "a int")),
        ({"value": "string"}, Decode("string")),
        ({"value": "bytes"}, Decode("bytes")),
        (
            {"value": {"json": "a int", "options": {"mode": "x", "b": True}}},
            Decode("json", "a int", {"mode": "x", "b": "true"}),
        ),
        ({"avro": '{"type": "int"}'}, Decode("avro", '{"type": "int"}')),
        ({"avro": {"type": "int"}}, Decode("avro", '{"type": "int"}')),
        ({"value": {"avro": '"int"', "registry_header": True}}, Decode("avro", '"int"', registry_header=True)),
    ],
)
def test_a_value_is_decoded_in_one_of_these_ways(said, decode):
    assert made(sources={"a": {"rate": None, **said}}).sources[0].value == decode


def test_an_avro_schema_is_read_from_a_file_beside_the_pipeline(folder, complaints):
    (folder / "trade.avsc").write_text('{"type": "long"}')

    assert complaints(f"sources: {{a: {{rate: , key: {{avro: trade.avsc}}}}}}\n{SINK}") == []
    assert complaints(f"sources: {{a: {{rate: , avro: trad.avsc}}}}\n{SINK}") == [
        "clicks.yaml:1:23: source 'a': no schema file 'trad.avsc'; did you mean 'trade.avsc'?"
    ]


def test_a_python_function_reads_the_streams_that_its_parameters_name():
    def totals(a, other):
        return a.join(other)

    pipeline = made(sources={"a": {"rate": None}, "other": {"rate": None}}, steps={"totals": totals})

    (step,) = pipeline.steps
    assert step.reads == ("a", "other")
    assert step.what.call is totals


def test_options_that_are_made_already_are_taken_as_they_are():
    from penstock.connectors import SOURCES

    rate = SOURCES["rate"](rows_per_second=7)

    assert made(sources={"a": {"rate": rate}}).sources[0].connector is rate


def test_a_builder_gives_call_sites_as_places():
    site = Location("pipeline.py", 12)
    document = Document(
        {"sources": {"a": {"rate": {"x": 1}}}, "sinks": {}}, "pipeline.py", ".", {("sources", "a"): site}
    )

    with pytest.raises(LoadError) as error:
        to_pipeline(document)

    assert "pipeline.py:12:1: source 'a': unknown key 'x'" in str(error.value)
