"""Every secured listener of a real broker, read and written by Spark and by the Python side."""

from __future__ import annotations

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from tests.services.conftest import Kafka
from tests.services.secured import AWKWARD, SecuredBroker

from penstock.connectors.kafka import KafkaSink
from penstock.feeds.kafka import send
from penstock.feeds.record import Record

LISTENERS = ["plaintext", "tls", "mutual-tls", "sasl-plain", "sasl-scram"]


@pytest.fixture
def kafka(secured: SecuredBroker) -> Kafka:
    """The plaintext side of the secured broker, to judge by."""
    return Kafka(secured.address)


def copied(secured: SecuredBroker, listener: str, topic: str, target: str, **more: object) -> str:
    return f"""
    name: p
    sources:
      rows:
        kafka: {secured.yaml(listener, topics=[topic], start="earliest", **more)}
        value: string
    sinks:
      out:
        from: rows
        kafka: {secured.yaml(listener, topic=target, value_column="value", **more)}
    """


def received(connector: KafkaSink, topic: str, count: int) -> list[bytes]:
    """What Kafka's Python client reads with nothing but the connector's own settings."""
    consumer = Consumer({**connector.client_settings, "group.id": "judge", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(2)])
    try:
        found = []
        while len(found) < count:
            messages = consumer.consume(count, timeout=20)
            assert messages, f"{len(found)} of {count} records came"
            assert [message.error() for message in messages if message.error()] == []
            found += [message.value() for message in messages]
        return sorted(found)
    finally:
        consumer.close()


@pytest.mark.parametrize("listener", LISTENERS)
def test_a_listener_is_read_and_written_by_spark_and_by_the_python_side(project, secured, kafka, listener):
    topic, target = kafka.create(), kafka.create()
    pipeline = project.load(copied(secured, listener, topic, target))
    sink = pipeline.sinks[0].connector
    sent = send(sink.servers, topic, [Record(b"k", b"a"), Record(b"k", b"b")], settings=sink.client_settings)

    project.run_once(pipeline)

    assert sent == 2
    assert received(sink, target, 2) == [b"a", b"b"]
    assert kafka.values(target, 2) == ["a", "b"]


def test_scram_sha_256_and_scram_without_tls_work_too(project, secured, kafka):
    topic, target = kafka.create(), kafka.create()
    kafka.send(topic, "a")
    text = f"""
    name: p
    sources:
      rows:
        kafka: {secured.yaml("scram-open", topics=[topic], start="earliest")}
        value: string
    sinks:
      out:
        from: rows
        kafka: {secured.yaml("sasl-scram", sasl=secured.user("scram-sha-256"), topic=target, value_column="value")}
    """

    project.run(text)

    assert kafka.values(target, 1) == ["a"]


def test_a_password_with_quotes_semicolons_and_line_breaks_arrives_as_it_is(project, secured, kafka, monkeypatch):
    topic, target = kafka.create(), kafka.create()
    kafka.send(topic, "a")
    monkeypatch.setenv("AWKWARD", AWKWARD)
    sasl = {"mechanism": "plain", "user": "awkward", "password": "${env:AWKWARD}"}

    project.run(copied(secured, "hub", topic, target, sasl=sasl))

    assert kafka.values(target, 1) == ["a"]


def test_a_declaration_in_a_file_is_relative_to_it(project, secured, kafka):
    topic = kafka.create()
    authority = secured.broker.secured.authority
    for name in ("ca.pem", "client.pem", "client.key"):
        (project.put(f"certs/{name}", (authority.folder / name).read_bytes())).chmod(0o600)
    tls = {"ca": "certs/ca.pem", "cert": "certs/client.pem", "key": "certs/client.key"}
    kafka.send(topic, "a")

    project.run(f"""
    name: p
    sources:
      rows:
        kafka: {secured.yaml("mutual-tls", topics=[topic], start="earliest", tls=tls)}
        value: string
    sinks: {{out: {{from: rows, memory: {{}}}}}}
    """)

    assert [row[1] for row in project.rows("out")] == ["a"]
