"""Feeds and recordings, as commands, against a real broker."""

from __future__ import annotations

import json
import os
import signal
import uuid
from pathlib import Path

import pytest
from confluent_kafka import Message
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.services.command import consume, penstock, started, until
from tests.services.fixtures import Kafka
from tests.unit.feeds.streams import ids, refuses, sends, serving, tweet

from penstock.errors import CallError, PenstockError, UnreachableError
from penstock.feeds import FEEDS
from penstock.feeds.kafka import KafkaTarget
from penstock.feeds.loop import FeedLoop
from penstock.feeds.pace import Live
from penstock.feeds.records import Record


def told(message: Message) -> tuple:
    """What a producer can set of a record, and where it is."""
    return (
        message.partition(),
        message.key(),
        message.value(),
        message.headers(),
        message.timestamp()[1],
    )


def test_made_up_records_arrive_with_their_keys(kafka, topic, tmp_path):
    done = penstock("feed", "trades", "--to", f"kafka:{topic}", "--servers", kafka.address, "--count", "5000",
                    "--keys", "20", "--skew", "1", "--duplicate", "1%", folder=tmp_path)  # fmt: skip

    assert done.returncode == 0, done.stderr
    count = int(done.stdout.split()[1].replace(",", ""))
    assert 5000 < count < 5200
    found = kafka.read(topic, count)
    assert {message.key().decode() == json.loads(message.value())["BrokerCode"] for message in found} == {True}
    partitions: dict[bytes, set[int]] = {}
    for message in found:
        partitions.setdefault(message.key(), set()).add(message.partition())
    assert {len(each) for each in partitions.values()} == {1}, "a key stays in its partition"


def test_ads_go_to_two_topics(kafka, tmp_path):
    shown, clicked = kafka.create(prefix="shown"), kafka.create(prefix="clicked")

    done = penstock("feed", "ads", "--to", f"kafka:{shown}", "--to", f"kafka:{clicked}", "--servers", kafka.address,
                    "--count", "900", folder=tmp_path)  # fmt: skip

    assert done.returncode == 0, done.stderr
    impressions, clicks = (
        [json.loads(value)["ImpressionID"] for value in consume(kafka.address, each)] for each in (shown, clicked)
    )
    assert len(impressions) + len(clicks) == 900
    assert set(clicks) < set(impressions)


def test_a_recording_replays_byte_for_byte(kafka, tmp_path):
    topic, copy, file = kafka.create(3), kafka.create(3), tmp_path / "topic.jsonl"
    kafka.send(topic, b'{"a": 1}', b"\x00\xff\n", partition=2, key=b"\xfe", timestamp=1_714_564_800_000)
    kafka.send(topic, None, partition=0, key="gone", timestamp=1_714_564_800_500)
    kafka.send(topic, "ü", "", partition=0, headers=[("h", b"\x01"), ("h", None)], timestamp=1_714_564_799_000)

    recorded = penstock("record", f"kafka:{topic}", "--to", file, "--servers", kafka.address, folder=tmp_path)
    replayed = penstock("feed", "--file", file, "--to", f"kafka:{copy}", "--servers", kafka.address, "--speed", "10x",
                        folder=tmp_path)  # fmt: skip

    assert recorded.returncode == replayed.returncode == 0, recorded.stderr + replayed.stderr
    assert recorded.stdout.startswith(f"recorded 5 records of {topic} in {file}")
    assert [told(message) for message in kafka.read(copy, 5)] == [told(message) for message in kafka.read(topic, 5)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["topic.jsonl"], "no parts are left"
    times = [json.loads(line).get("timestamp", 0) for line in file.read_text().splitlines()[1:]]
    assert times == [1_714_564_800_000, 1_714_564_800_000, 1_714_564_800_500, 1_714_564_799_000, 1_714_564_799_000]


def test_a_recording_ends_at_its_bounds_and_says_when_there_is_no_topic(kafka, topic, tmp_path):
    kafka.send(topic, *(f"{number}" for number in range(50)), partition=1)

    some = penstock("record", f"kafka:{topic}", "--to", "some.jsonl", "--servers", kafka.address, "--count", "7",
                    folder=tmp_path)  # fmt: skip
    none = penstock("record", "kafka:no-such-topic", "--to", "none.jsonl", "--servers", kafka.address, folder=tmp_path)

    assert some.returncode == 0, some.stderr
    values = [json.loads(line)["value"] for line in (tmp_path / "some.jsonl").read_text().splitlines()[1:]]
    assert values == [f"{number}" for number in range(7)]
    assert none.returncode == 1
    assert "has no topic 'no-such-topic'" in none.stderr
    assert not (tmp_path / "none.jsonl").exists()


def test_a_recording_follows_until_it_is_told_to_end(kafka, topic, tmp_path):
    kafka.send(topic, "first")
    call = ("record", f"kafka:{topic}", "--to", "live.jsonl", "--servers", kafka.address, "--follow")

    with started(*call, folder=tmp_path) as recording:
        parts = lambda: [path for path in tmp_path.glob(".live.jsonl.*/0") if b"first" in path.read_bytes()]  # noqa: E731
        kafka.send(topic, *["x" * 10_000] * 20)
        until(lambda: bool(parts()), "the first record in a part")
        assert not (tmp_path / "live.jsonl").exists()
        recording.process.send_signal(signal.SIGTERM)
        assert recording.process.wait(60) == 0, recording.said

    assert "first" in (tmp_path / "live.jsonl").read_text()


def test_a_topic_with_fewer_partitions_than_the_recording_is_refused(kafka, tmp_path):
    topic, small, file = kafka.create(3), kafka.create(1), tmp_path / "topic.jsonl"
    kafka.send(topic, "a", partition=2, key="k")
    penstock("record", f"kafka:{topic}", "--to", file, "--servers", kafka.address, folder=tmp_path)
    call = ("feed", "--file", file, "--to", f"kafka:{small}", "--servers", kafka.address)

    refused, spread = penstock(*call, folder=tmp_path), penstock(*call, "--repartition", folder=tmp_path)

    assert refused.returncode == 2
    assert f"topic '{small}' has 1 partitions, and the recording has 3" in refused.stderr
    assert spread.returncode == 0, spread.stderr
    assert kafka.values(small, 1) == ["a"]


def test_an_http_stream_that_stalls_drops_and_limits_reaches_the_topic_once(kafka, topic, tmp_path):
    script = (
        sends(tweet(1), b"\r\n", tweet(2), tweet(3)[:7], then="drop"),
        refuses(429, Retry_After="1"),
        sends(tweet(2), tweet(3), then="stall"),
        refuses(503),
        sends(tweet(3), tweet(4), tweet(5)),
    )
    with serving(*script) as server:
        done = penstock(
            "feed", "--http", server.url, "--token", "${env:STREAM_TOKEN}", "--to", f"kafka:{topic}",
            "--servers", kafka.address, "--count", "5", "--heartbeat", "1s", "--key-column", "user.name",
            "--resume-field", "id", "--resume-parameter", "since_id", "--resume-file", "last",
            folder=tmp_path, STREAM_TOKEN="tok-123456",
        )  # fmt: skip

    assert done.returncode == 0, done.stderr
    found = kafka.read(topic, 5)
    assert sorted(ids([message.value() for message in found])) == [1, 2, 3, 4, 5]
    assert len(consume(kafka.address, topic)) == 5, "repeated records are skipped"
    assert {message.key() for message in found} == {b"u1", b"u2", b"u3", b"u4", b"u5"}
    assert [visit.query.get("since_id") for visit in server.visits] == [None, "2", "2", "3", "3"]
    assert (tmp_path / "last").read_text() == "5\n"
    for says in (
        "broke off within a record",
        "answers 429",
        "not even a heartbeat",
        "answers 503",
        "repeated records skipped: 2",
    ):
        assert says in done.stderr
    assert "tok-123456" not in done.stderr + done.stdout


def test_a_broker_that_does_not_take_a_record_is_an_error(kafka):
    topic = f"small-{uuid.uuid4().hex}"
    admin = AdminClient({"bootstrap.servers": kafka.address})
    admin.create_topics([NewTopic(topic, 1, 1, config={"max.message.bytes": "1000"})])[topic].result(30)
    target = KafkaTarget(kafka.address, topic)
    feeding = FeedLoop([target], Live())

    with pytest.raises(UnreachableError, match=f"did not accept a record of topic '{topic}': .*too large"):
        feeding.run(iter([Record(b"k", b"fine"), Record(b"k", os.urandom(5000))]))


def test_a_record_that_cannot_be_sent_is_an_error_at_once(kafka, topic):
    target = KafkaTarget(kafka.address, topic)
    target.open()
    target.send([Record(b"k", b"fine")])
    target.flush()

    with pytest.raises(PenstockError, match=r"to topic .* Unknown partition; 1 were sent before it"):
        target.send([Record(b"k", b"x", partition=17)])

    assert kafka.values(topic, 1) == ["fine"]


def test_a_queue_that_is_full_lets_the_feed_wait(kafka, topic):
    target = KafkaTarget(kafka.address, topic, {"queue.buffering.max.messages": 10, "linger.ms": 50})
    target.open()
    made = [record for record, _ in zip(FEEDS["trades"](7), range(200), strict=False)]

    target.send(made)
    target.flush()
    target.close()

    assert target.acked == 200
    assert len(consume(kafka.address, topic)) == 200


def test_too_few_partitions_are_said_before_anything_is_sent(kafka, topic):
    with pytest.raises(CallError, match="has 2 partitions, and the recording has 5; give one with as many"):
        KafkaTarget(kafka.address, topic, partitions=5).open()


def test_a_feed_without_end_is_ended_by_a_signal_and_tells_the_truth(kafka: Kafka, topic: str, tmp_path: Path):
    call = ("feed", "sensors", "--to", f"kafka:{topic}", "--servers", kafka.address, "--rate", "200", "--for", "1h")

    with started(*call, folder=tmp_path) as feeding:
        kafka.read(topic, 50)
        feeding.process.send_signal(signal.SIGTERM)
        assert feeding.process.wait(60) == 0, feeding.said
        said = feeding.printed

    assert said.startswith("sent ")
    assert int(said.split()[1].replace(",", "")) == len(consume(kafka.address, topic)) >= 50
