"""Kafka topics out, judged by Kafka's own client: topics, keys, values, headers, modes, and the two fast triggers."""

from __future__ import annotations

import json

import pytest

from penstock.connectors.kafka import KafkaSink
from penstock.errors import LoadError
from penstock.load import load
from penstock.testing.connectors import SinkSuite

AVRO = '{"type":"record","name":"Word","fields":[{"name":"word","type":"string"},{"name":"n","type":"int"}]}'


@pytest.fixture
def words(project):
    """Two files of words, one for each batch."""
    project.put("input/1.csv", "a,1\na,2\n", at=1)
    project.put("input/2.csv", "b,3\n", at=2)
    return project


def copied(kafka, sink: str, select: str = "*", more: str = "") -> str:
    return f"""
    name: p
    sources:
      rows: {{files: {{path: input, format: csv, schema: "word string, n int", files_per_trigger: 1}}}}
    steps:
      step: SELECT {select} FROM rows
    sinks:
      out:
        from: step
        kafka: {{servers: "{kafka.address}", {sink}}}
        {more or "mode: append"}
    """


def test_rows_are_sent_as_json(words, kafka, topic):
    words.run(copied(kafka, f"topic: {topic}"))

    assert kafka.values(topic, 3) == ['{"word":"a","n":1}', '{"word":"a","n":2}', '{"word":"b","n":3}']
    assert {message.key() for message in kafka.read(topic, 3)} == {None}


def test_a_column_is_the_key_and_stays_in_the_value(words, kafka, topic):
    words.run(copied(kafka, f"topic: {topic}, key: n"))

    found = {message.key(): json.loads(message.value()) for message in kafka.read(topic, 3)}
    assert found == {b"1": {"word": "a", "n": 1}, b"2": {"word": "a", "n": 2}, b"3": {"word": "b", "n": 3}}


def test_a_column_chooses_the_topic_and_leaves_the_value(words, kafka):
    topics = {"a": kafka.create(), "b": kafka.create()}
    select = f"*, CASE word WHEN 'a' THEN '{topics['a']}' ELSE '{topics['b']}' END AS `where`"

    words.run(copied(kafka, "topic_column: where", f"{select}"))

    assert kafka.values(topics["a"], 2) == ['{"word":"a","n":1}', '{"word":"a","n":2}']
    assert kafka.values(topics["b"], 1) == ['{"word":"b","n":3}']


def test_one_column_is_sent_as_it_is(words, kafka, topic):
    words.run(copied(kafka, f"topic: {topic}, value_column: word"))

    assert kafka.values(topic, 3) == ["a", "a", "b"]


def test_bytes_are_sent_as_they_are(words, kafka, topic):
    words.run(copied(kafka, f"topic: {topic}, value_column: raw, key: raw", "unhex('FF00') AS raw"))

    assert {(message.key(), message.value()) for message in kafka.read(topic, 3)} == {(b"\xff\x00", b"\xff\x00")}


def test_rows_are_sent_as_avro_of_a_schema(words, kafka, topic):
    words.run(copied(kafka, f"topic: {topic}, value: avro, avro_schema: '{AVRO}'"))

    assert sorted(message.value() for message in kafka.read(topic, 3)) == [b"\x02a\x02", b"\x02a\x04", b"\x02b\x06"]


def test_rows_are_sent_as_avro_of_their_own_schema(words, kafka, topic):
    words.run(copied(kafka, f"topic: {topic}, value: avro"))

    found = sorted(message.value() for message in kafka.read(topic, 3))
    assert found == [b"\x00\x02a\x00\x02", b"\x00\x02a\x00\x04", b"\x00\x02b\x00\x06"]


def test_headers_come_from_a_column_and_leave_the_value(words, kafka, topic):
    headers = "word, array(struct('trace' AS key, unhex('FF') AS value)) AS headers"

    words.run(copied(kafka, f"topic: {topic}, headers: headers", headers))

    found = sorted((message.value(), message.headers()) for message in kafka.read(topic, 3))
    assert found == [(b'{"word":"%s"}' % word, [("trace", b"\xff")]) for word in (b"a", b"a", b"b")]


def test_a_null_becomes_a_tombstone(words, kafka, topic):
    words.run(copied(kafka, f"topic: {topic}, key: word, value_column: v", "word, nullif(word, 'b') AS v"))

    assert {message.key(): message.value() for message in kafka.read(topic, 3)} == {b"a": b"a", b"b": None}


COUNTS = "word, count(*) AS count"


def counted(kafka, topic: str, mode: str) -> str:
    text = copied(kafka, f"topic: {topic}", COUNTS, f"mode: {mode}")
    return text.replace("FROM rows", "FROM rows GROUP BY word")


def test_mode_update_sends_the_rows_that_changed(words, kafka, topic):
    words.run(counted(kafka, topic, "update"))

    assert kafka.values(topic, 2) == ['{"word":"a","count":2}', '{"word":"b","count":1}']


def test_mode_complete_sends_everything_with_each_batch(words, kafka, topic):
    words.run(counted(kafka, topic, "complete"))

    assert kafka.values(topic, 3) == ['{"word":"a","count":2}', '{"word":"a","count":2}', '{"word":"b","count":1}']


@pytest.mark.parametrize(("trigger", "mode"), [("continuous 1 second", "append"), ("real-time 5 seconds", "update")])
@pytest.mark.parametrize("decode", ["json: id int", "value: string"])
def test_records_go_from_topic_to_topic_while_the_query_runs(project, kafka, topic, trigger, mode, decode):
    target = kafka.create()
    select = "id AS n" if decode == "json: id int" else "get_json_object(value, '$.id') AS n"
    pipeline = project.load(f"""
        name: p
        sources:
          rows:
            kafka: {{servers: "{kafka.address}", topics: [{topic}], start: earliest}}
            {decode}
            bad_records: drop
        steps:
          step: SELECT {select} FROM rows
        sinks:
          out:
            from: step
            kafka: {{servers: "{kafka.address}", topic: {target}}}
            mode: {mode}
            trigger: {trigger}
        """)
    kafka.send(topic, '{"id": 1}', b"\xff")

    with project.started(pipeline) as (queries, _):
        first = kafka.read(target, 1)
        kafka.send(topic, '{"id": 2}', partition=1)
        both = kafka.read(target, 2)
        assert next(iter(queries)).exception() is None

    assert len(first) == 1
    assert sorted(int(json.loads(message.value())["n"]) for message in both) == [1, 2]


@pytest.mark.parametrize(("trigger", "mode"), [("continuous 1 second", "append"), ("real-time 5 seconds", "update")])
def test_a_bad_record_ends_a_fast_query_too(project, kafka, topic, refusal, trigger, mode):
    target = kafka.create()
    pipeline = project.load(f"""
        name: p
        sources:
          rows:
            kafka: {{servers: "{kafka.address}", topics: [{topic}], start: earliest}}
            json: id int
        sinks:
          out:
            from: rows
            kafka: {{servers: "{kafka.address}", topic: {target}}}
            mode: {mode}
            trigger: {trigger}
        """)
    kafka.send(topic, "bad")

    said = refusal(project.watch, pipeline)

    assert f"the record at topic {topic}, partition 0, offset 0 is not json of the declared schema: bad; " in said


def test_a_missing_topic_is_named(words, kafka, refusal):
    said = refusal(words.run, copied(kafka, "topic: nope"))

    assert said.startswith(
        f"{words.folder}/pipeline.yaml:10:5: sink 'out': Kafka at {kafka.address} has no topic 'nope'; "
    )


@pytest.mark.parametrize(
    ("sink", "says"),
    [
        ("topic: t, topic_column: c", "give one of 'topic' and 'topic_column'"),
        ("key: c", "give one of 'topic' and 'topic_column'"),
        ("topic: t, avro_schema: '{}'", "'avro_schema' needs 'value: avro'"),
        (
            "topic: t, options: {kafka.key.serializer: x}",
            "Spark does not allow 'key.serializer'; use 'key' on the sink",
        ),
        ("topic: t, options: {kafka.value.serializer: x}", "Spark does not allow 'value.serializer'"),
        ("topic: t, options: {topic: u}", "'topic' has its own option here; use 'topic'"),
    ],
)
def test_what_contradicts_itself_is_refused_by_name(words, kafka, sink, says):
    file = words.put("pipeline.yaml", copied(kafka, sink))

    with pytest.raises(LoadError) as caught:
        load(file)

    assert says in str(caught.value)


class TestAtLeastOnce(SinkSuite):
    has_columns = False  # records take any row

    @pytest.fixture(autouse=True)
    def _broker(self, kafka):
        self.kafka = kafka

    def sink(self, place):  # noqa: ARG002
        return KafkaSink(servers=self.kafka.address, topic=self.kafka.create())

    def written(self, sink):
        found = [json.loads(message.value()) for message in self.kafka.committed(sink.topic)]
        return [(each["id"], each.get("name"), each.get("amount")) for each in found]


class TestExactlyOnce(TestAtLeastOnce):
    def sink(self, place):  # noqa: ARG002
        return KafkaSink(servers=self.kafka.address, topic=self.kafka.create(), delivery="exactly-once", writers=2)

    def _check_once(self, sink, rows):
        assert self._read_sorted(sink) == list(rows)
