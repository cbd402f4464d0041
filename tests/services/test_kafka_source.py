"""Kafka topics in: what is read, from where to where, and how records become rows."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from penstock.connectors.kafka import KafkaSource
from penstock.engine import prepare
from penstock.errors import LoadError, UnreachableError
from penstock.load import load
from penstock.services.kafka import free_port
from penstock.testing.connectors import SourceSuite

AVRO = '{"type":"record","name":"Trade","fields":[{"name":"id","type":"int"},{"name":"name","type":["null","string"]}]}'
SPLIT_SECOND = "2024-05-01 12:00:00.500"
NOON_MILLISECONDS = 1714564800000


@dataclass
class Reading:
    """A topic, and a pipeline that reads it into memory."""

    project: Any
    kafka: Any
    topic: str

    def send(self, *values: str | bytes | None, **more: Any) -> None:
        self.kafka.send(self.topic, *values, **more)

    def text(self, settings: str = "", options: str = "start: earliest", select: str = "*", what: str = "") -> str:
        what = what or f"topics: [{self.topic}]"
        return f"""
        name: p
        sources:
          rows:
            kafka: {{servers: "{self.kafka.address}", {what}, {options}}}
            {settings or "metadata: false"}
        steps:
          step: SELECT {select} FROM rows
        sinks:
          out: {{from: step, memory: {{}}}}
        """

    def run(self, *arguments: str, **more: str) -> Any:
        return self.project.run(self.text(*arguments, **more))

    @property
    def rows(self) -> list[Any]:
        """The rows; of a single column the values."""
        found = self.project.rows("out")
        return [row[0] for row in found] if found and len(found[0]) == 1 else found


def and_(*settings: str) -> str:
    return "\n            ".join(settings)


@pytest.fixture
def reading(project, kafka, topic):
    """A fresh topic of two partitions, read into memory."""
    return Reading(project, kafka, topic)


TEXT = "value: string"


def test_a_record_is_key_value_and_whereabouts(reading):
    reading.send("one", key="k", timestamp=NOON_MILLISECONDS, partition=1)

    reading.run(and_(TEXT, "key: string"), select="key, value, topic, partition, offset, unix_millis(timestamp) AS at")

    assert reading.rows == [("k", "one", reading.topic, 1, 0, NOON_MILLISECONDS)]


def test_without_decoding_key_and_value_are_bytes(reading):
    reading.send(b"\xff\x00", key=b"\xfe")

    reading.run(select="key, value")

    assert reading.rows == [(b"\xfe", b"\xff\x00")]


def test_several_topics_are_read(reading, kafka):
    other = kafka.create()
    reading.send("one")
    kafka.send(other, "two")

    reading.run(TEXT, select="value", what=f'topics: "{reading.topic}, {other}"')

    assert reading.rows == ["one", "two"]


def test_topics_of_a_pattern_are_read(reading, kafka):
    kafka.send(kafka.create(prefix=f"like-{reading.topic}"), "one")
    kafka.send(kafka.create(prefix=f"like-{reading.topic}"), "two")
    reading.send("other")

    reading.run(TEXT, select="value", what=f'pattern: "like-{reading.topic}.*"')

    assert reading.rows == ["one", "two"]


def test_chosen_partitions_are_read(reading):
    reading.send("zero", partition=0)
    reading.send("one", partition=1)

    reading.run(TEXT, select="value", what=f"partitions: {{{reading.topic}: [1]}}")

    assert reading.rows == ["one"]


def test_latest_begins_with_what_comes_after_the_start(reading):
    reading.send("before")
    pipeline = reading.project.load(reading.text(TEXT, "start: latest", select="value"))

    with reading.project.started(pipeline) as (queries, _):
        next(iter(queries)).processAllAvailable()
        reading.send("after")
        next(iter(queries)).processAllAvailable()

    assert reading.rows == ["after"]


def test_a_time_begins_with_the_first_record_that_is_not_before_it(reading):
    for seconds, value in enumerate(["a", "b", "c"]):
        reading.send(value, timestamp=NOON_MILLISECONDS + seconds * 1000)

    reading.run(TEXT, f'start: "{SPLIT_SECOND}"', select="value")

    assert reading.rows == ["b", "c"]


def test_a_time_after_the_last_record_begins_at_the_end(reading):
    reading.send("a", timestamp=NOON_MILLISECONDS)

    run = reading.run(TEXT, "start: 2099-01-01T00:00:00Z", select="value")

    assert run.batches == []


def test_offsets_begin_and_end_each_partition(reading):
    reading.send("a0", "a1", "a2", partition=0)
    reading.send("b0", "b1", "b2", partition=1)
    where = f"start: {{{reading.topic}: {{0: 1, 1: 0}}}}, end: {{{reading.topic}: {{0: 2, 1: 1}}}}"

    reading.run(TEXT, where, select="value")

    assert reading.rows == ["a1", "b0"]


def test_records_from_the_end_on_are_left_out(reading):
    for seconds, value in enumerate(["a", "b", "c"]):
        reading.send(value, timestamp=NOON_MILLISECONDS + seconds * 1000)

    reading.run(TEXT, f'start: earliest, end: "{SPLIT_SECOND}"', select="value")

    assert reading.rows == ["a"]


def test_bad_records_from_the_end_on_are_not_looked_at(reading):
    reading.send('{"id": 1}', "bad")

    run = reading.run("json: id int", f"start: earliest, end: {{{reading.topic}: {{0: 1}}}}")

    assert reading.rows == [1]
    assert run.bad == {}


def test_records_per_trigger_bounds_a_batch(reading):
    reading.send(*"abcde")

    run = reading.run(TEXT, "start: earliest, records_per_trigger: 2", select="value")

    assert reading.rows == list("abcde")
    assert [batch.rows_in for batch in run.batches] == [2, 2, 1]


def test_min_partitions_splits_a_topics_partitions(reading):
    reading.send(*"abcdefgh")

    reading.run(TEXT, "start: earliest, min_partitions: 4", select="spark_partition_id() AS number")

    assert set(reading.rows) == {0, 1, 2, 3}


def test_a_restart_reads_on_from_the_checkpoint(reading):
    text = reading.text("value: string", select="value").replace("memory: {}", "files: {path: output, format: text}")
    reading.send("a", "b")
    reading.project.run(text)
    reading.send("c")

    run = reading.project.run(text)

    assert [batch.rows_in for batch in run.batches] == [1]
    assert reading.project.written("output", "text") == [("a",), ("b",), ("c",)]


def test_headers_are_a_column(reading):
    reading.send("one", headers=[("trace", b"abc"), ("trace", None)])

    reading.run(TEXT, "start: earliest, headers: true", select="headers")

    assert [tuple(header) for header in reading.rows[0]] == [("trace", b"abc"), ("trace", None)]


def test_metadata_keeps_the_whereabouts_beside_the_decoded_fields(reading):
    reading.send('{"id": 7}', key="k", headers=[("trace", b"abc")], partition=1)

    reading.run(and_("json: id int", "metadata: true"), "start: earliest, headers: true")

    ((number, record),) = reading.rows
    assert (number, record["partition"], record["offset"], bytes(record["key"])) == (7, 1, 0, b"k")
    assert record["headers"][0]["key"] == "trace"


def test_json_becomes_columns(reading):
    value = {"id": 1, "at": "2024-05-01T12:00:00Z", "tags": ["a", "b"], "deep": {"x": 1.5}, "more": "is left out"}
    reading.send(json.dumps(value))

    reading.run(
        "json: id long, at timestamp, tags array<string>, deep struct<x:double>, none string",
        select="id, unix_millis(at) AS at, tags, deep.x, none",
    )

    assert reading.rows == [(1, NOON_MILLISECONDS, ["a", "b"], 1.5, None)]


def test_names_with_odd_letters_are_columns_too(reading):
    reading.send('{"first name": "a", "é.b": {"c d": 1}}')

    reading.run("json: '`first name` string, `é.b` struct<`c d`:int>'", select="`first name`, `é.b`.`c d`")

    assert reading.rows == [("a", 1)]


def test_csv_becomes_columns_with_options_of_spark(reading):
    reading.send('1;"one; two"', "2;")

    reading.run('value: {csv: "id int, name string", options: {sep: ";"}}', select="id, name")

    assert reading.rows == [(1, "one; two"), (2, None)]


def test_avro_becomes_columns(reading):
    reading.send(b"\x02\x02\x06one", b"\x04\x00")

    reading.run(f"avro: '{AVRO}'", select="id, name")

    assert reading.rows == [(1, "one"), (2, None)]


def test_avro_of_nothing_but_nulls_is_no_bad_record(reading):
    reading.send(b"\x00", b"\x02\x06one")
    schema = '{"type":"record","name":"T","fields":[{"name":"name","type":["null","string"]}]}'

    run = reading.run(and_(f"avro: '{schema}'", "bad_records: drop"))

    assert reading.rows == ["one", None]
    assert run.bad == {"rows": 0}


def test_avro_that_is_no_record_is_a_column_value(reading):
    reading.send(b"\x06one")

    reading.run("avro: '\"string\"'", select="value")

    assert reading.rows == ["one"]


def test_the_header_of_a_schema_registry_is_taken_off(reading):
    reading.send(b"\x00\x00\x00\x00\x07\x02\x02\x06one", b"\x01\x00\x00\x00\x07\x02\x02\x06one", b"\x00\x00")

    run = reading.run(and_(f"value: {{avro: '{AVRO}', registry_header: true}}", "bad_records: drop"), select="id, name")

    assert reading.rows == [(1, "one")]
    assert run.bad == {"rows": 2}


def test_a_key_is_decoded_into_a_struct_and_may_be_absent(reading):
    reading.send('{"id": 1}', key='{"k": "a"}')
    reading.send('{"id": 2}')

    reading.run(and_("json: id int", "key: {json: k string}"), select="id, key.k")

    assert reading.rows == [(1, "a"), (2, None)]


def test_a_key_is_decoded_beside_a_value_of_bytes(reading):
    reading.send("v", key="1,a")

    reading.run("key: {csv: 'n int, s string'}", select="key.n, key.s, value")

    assert reading.rows == [(1, "a", b"v")]


BAD_JSON = {
    "a tombstone": None,
    "nothing": b"",
    "blanks": b"  ",
    "no json": b"hello",
    "half of it": b'{"id": 1',
    "another type": b'{"id": "x"}',
    "a fraction for an int": b'{"id": 1.5}',
    "an int that is too large": b'{"id": 99999999999}',
    "a number that is too large": b'{"id": 1, "x": 1e400}',
    "a number too large inside": b'{"id": 1, "xs": [1, -1e400]}',
    "no utf-8": b'{"id": 1, "name": "\xff\xfe"}',
    "a NUL inside": b'{"id": 1, "name": "a\x00b"}',
    "NULs after it": b'{"id": 1}\x00\x00',
    "deeper than json goes": b'{"id": 1, "name": ' + b"[" * 5000 + b"]" * 5000 + b"}",
    "an array": b'[{"id": 1}]',
    "null": b"null",
    "a second record": b'{"id": 1}{"id": 2}',
    "a second record on a line of its own": b'{"id": 1}\n{"id": 2}\n',
    "something after it": b'{"id": 1} tail',
    "a comma after it": b'{"id": 1},',
    "a decimal of a billion digits": b'{"id": 1, "m": 1e1000000000}',
    "a decimal of a billion places, in quotes": b'{"id": 1, "m": "1e-1000000000"}',
    "a required field missing": b'{"name": "a"}',
    "a required field null": b'{"id": null}',
}
JSON = "json: id int NOT NULL, name string, x double, xs array<float>, m decimal(10,2)"


def test_what_is_not_json_of_the_schema_is_left_out_and_counted(reading):
    good = [
        b'{"id": 1, "name": "a\\u0000b"}',
        b'{"id": 2, "x": "Infinity"}',
        b' {"id": 3} \n',
        b'{"id": 4, "x": 1e308}',
    ]
    good += [b'{"id": 5, "name": "}{ \\"} {"}', b'{"id": 6, "m": 1e3, "name": "1e12"}']
    reading.send(*good, *BAD_JSON.values())

    run = reading.run(and_(JSON, "bad_records: drop"), select="id")

    assert reading.rows == [1, 2, 3, 4, 5, 6]
    assert run.bad == {"rows": len(BAD_JSON)}


def test_a_bad_record_is_counted_whatever_the_steps_ask_for(reading):
    reading.send('{"id": 1, "name": "a"}', '{"id": "x", "name": "b"}')
    asked = {"everything": "*", "constant": "7 AS n", "bad": "id", "good": "name"}
    head, _, _ = reading.text(and_("json: id int, name string", "bad_records: drop")).partition("        steps:")
    steps = [f"          {name}: SELECT {select} FROM rows" for name, select in asked.items()]
    sinks = [f"          {name}_out: {{from: {name}, memory: {{}}}}" for name in asked]

    run = reading.project.run("\n".join([head, "        steps:", *steps, "        sinks:", *sinks]))

    assert {name: len(reading.project.rows(f"{name}_out")) for name in asked} == dict.fromkeys(asked, 1)
    assert [batch.bad_records for batch in run.batches] == [{"rows": 1}] * len(asked)


@pytest.mark.parametrize("select", ["*", "7 AS n", "name", "count(*) AS n"])
def test_a_bad_record_ends_the_run_whatever_the_steps_ask_for(reading, refusal, select):
    reading.send('{"id": 1, "name": "a"}', '{"id": "x", "name": "b"}', partition=1)
    text = reading.text("json: id int, name string", select=select)
    text = text.replace("memory: {}", "memory: {}, mode: complete") if "count" in select else text

    said = refusal(reading.project.run, text)

    assert said.endswith(
        f": sink 'out': source 'rows': the record at topic {reading.topic}, partition 1, offset 1 is not json of the "
        'declared schema: {"id": "x", "name": "b"}; correct it where it comes from, '
        "or set 'bad_records: drop' to count such records and continue"
    )


@pytest.mark.parametrize("what", ["a tombstone", "no utf-8", "NULs after it", "deeper than json goes"])
def test_a_bad_record_is_named_in_one_line(reading, refusal, what):
    reading.send(BAD_JSON[what])

    said = refusal(reading.run, JSON)

    assert f"the record at topic {reading.topic}, partition 0, offset 0 is not json of the declared schema: " in said
    assert "\n" not in said
    assert said.endswith("and continue")


BAD_CSV = [None, b"", b" ", b"x,a,1", b"1,a", b"1,a,1,1", b"1,a,1e400", b"1,\xff,1", b"1,a,1\n2,b,2", b",a,1"]


def test_what_is_not_csv_of_the_schema_is_left_out_and_counted(reading):
    reading.send("1,a,1.5", "2,,", "3,c,Infinity", *BAD_CSV)

    run = reading.run(and_("csv: id int NOT NULL, name string, x double", "bad_records: drop"), select="id")

    assert reading.rows == [1, 2, 3]
    assert run.bad == {"rows": len(BAD_CSV)}


def test_what_is_not_avro_of_the_schema_is_left_out_and_counted(reading):
    reading.send(b"\x02\x02\x06one", None, b"", b"\x02\x02\x06on", b"\x02\x09")

    run = reading.run(and_(f"avro: '{AVRO}'", "bad_records: drop"), select="id")

    assert reading.rows == [1]
    assert run.bad == {"rows": 4}


def test_bad_avro_is_shown_in_hexadecimal(reading, refusal):
    reading.send(b"\x02\x02\x06on")

    said = refusal(reading.run, f"avro: '{AVRO}'")

    assert "offset 0 is not avro of the declared schema: 0x0202066F6E; " in said


def test_text_that_is_not_utf_8_is_bad_and_a_tombstone_is_null(reading, refusal):
    reading.send("good", None, b"\xff")

    run = reading.run(and_(TEXT, "bad_records: drop"), select="value")
    assert reading.rows == ["good", None]
    assert run.bad == {"rows": 1}

    said = refusal(reading.project.run, reading.text(TEXT, select="value").replace("name: p", "name: q"))
    assert f"the record at topic {reading.topic}, partition 0, offset 2 is not UTF-8 text: " in said


@pytest.mark.parametrize("value", ["json: id int", "value: bytes"])
def test_a_key_that_cannot_be_decoded_is_bad(reading, refusal, value):
    reading.send('{"id": 1}', key='{"k": 1}')
    reading.send('{"id": 2}', key="no json")
    reading.send('{"id": 3}', key="")
    settings = and_(value, "key: {json: k int}")

    run = reading.run(and_(settings, "bad_records: drop"), select="key.k")
    assert reading.rows == [1]
    assert run.bad == {"rows": 2}

    said = refusal(reading.project.run, reading.text(settings, select="key.k").replace("name: p", "name: q"))
    assert "offset 1 has a key that is not json of the declared schema: no json; correct it" in said


def test_records_that_are_gone_end_the_run_or_are_skipped(reading, refusal, kafka):
    reading.send("a", "b", "c")
    kafka.forget(reading.topic, 0, before=2)
    start = f"start: {{{reading.topic}: {{0: 0, 1: 0}}}}"

    said = refusal(reading.run, TEXT, start)
    assert "\n" not in said

    reading.project.run(
        reading.text(TEXT, start + ", on_data_loss: skip", select="value").replace("name: p", "name: q")
    )
    assert reading.rows == ["c"]


def test_a_missing_topic_is_named_with_those_that_are_there(reading, refusal):
    said = refusal(reading.project.run, reading.text(what="topics: [nope]"))

    address = reading.kafka.address
    assert said.startswith(
        f"{reading.project.folder}/pipeline.yaml:4:3: source 'rows': Kafka at {address} has no topic 'nope'; "
        "create it first; there is "
    )


def test_a_broker_that_does_not_answer_is_named(project):
    address = f"127.0.0.1:{free_port()}"
    file = project.put(
        "pipeline.yaml",
        f"""\
        name: p
        sources:
          rows: {{kafka: {{servers: "{address}", topics: [t]}}}}
        sinks:
          out: {{from: rows, memory: {{}}}}
        """,
    )
    heard: list[str] = []

    with pytest.raises(UnreachableError) as caught:
        prepare(load(file), heard.append, wait_seconds=1)

    assert caught.value.retry
    assert str(caught.value) == (
        f"{file}:3:3: source 'rows': no Kafka broker answers at {address} after 1 s: connection refused; "
        "start it (penstock dev up kafka runs one here) or correct 'servers'"
    )


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ("kafka.auto.offset.reset", "Spark does not allow 'auto.offset.reset'; use 'start'"),
        ("kafka.enable.auto.commit", "Spark does not allow 'enable.auto.commit'; take it out"),
        ("kafka.key.deserializer", "Spark does not allow 'key.deserializer'; use 'key: string'"),
        ("kafka.value.deserializer", "Spark does not allow 'value.deserializer'; use 'json'"),
        ("kafka.interceptor.classes", "Spark does not allow 'interceptor.classes'; take it out"),
        ("kafka.bootstrap.servers", "Spark does not allow 'bootstrap.servers'; use 'servers'"),
        ("KAFKA.BOOTSTRAP.SERVERS", "Spark does not allow 'bootstrap.servers'; use 'servers'"),
        ("subscribe", "'subscribe' has its own option here; use 'topics'"),
        ("startingOffsets", "'startingOffsets' has its own option here; use 'start'"),
        ("failOnDataLoss", "'failOnDataLoss' has its own option here; use 'on_data_loss'"),
    ],
)
def test_options_that_spark_keeps_for_itself_are_refused_by_name(project, option, says):
    file = project.put(
        "pipeline.yaml",
        f"""\
        name: p
        sources:
          rows: {{kafka: {{servers: "localhost:9092", topics: [t], options: {{{option}: x}}}}}}
        sinks:
          out: {{from: rows, memory: {{}}}}
        """,
    )

    with pytest.raises(LoadError, match="source 'rows'") as caught:
        load(file)

    assert says in str(caught.value)


def test_other_options_of_kafkas_client_pass_through(reading):
    reading.send("a")

    reading.run(TEXT, "start: earliest, options: {kafka.client.id: me, kafka.isolation.level: read_committed}")

    assert len(reading.rows) == 1


class TestKafka(SourceSuite):
    @pytest.fixture(autouse=True)
    def _topic(self, kafka, topic):
        self.kafka, self.topic = kafka, topic

    def source(self, place):  # noqa: ARG002
        self.kafka.send(self.topic, "one")
        return KafkaSource(servers=self.kafka.address, topics=(self.topic,), start="earliest", headers=True)
