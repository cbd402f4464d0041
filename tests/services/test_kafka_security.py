"""Every secured listener of a real broker, read and written by Spark and by the Python side."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from tests.services.fixtures import Kafka
from tests.services.secured import AWKWARD, SecuredBroker

from penstock.connectors.kafka import KafkaSink
from penstock.feeds.kafka import send
from penstock.feeds.records import Record

LISTENERS = ["tls", "mutual-tls", "sasl-plain", "sasl-scram"]


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
    sink = pipeline.sinks[0].targets[0].connector
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


def stores(secured: SecuredBroker, folder: Path, kind: str) -> dict[str, str]:
    """What the client of mutual TLS has, in key stores that Java's own tool made."""
    authority = secured.broker.secured.authority
    files = ["-in", authority.certificate("client"), "-inkey", authority.key("client"), "-out", folder / "c.p12"]
    commands = [["openssl", "pkcs12", "-export", *files, "-passout", "pass:st0re-pw", "-name", "me"]]
    keytool = ["keytool", "-noprompt", "-storepass", "st0re-pw"]
    trust, client = folder / f"trust.{kind}", folder / f"client.{kind}"
    commands.append(
        [*keytool, "-importcert", "-alias", "ca", "-file", authority.ca, "-keystore", trust, "-storetype", kind]
    )
    source = ["-srckeystore", folder / "c.p12", "-srcstoretype", "PKCS12", "-srcstorepass", "st0re-pw"]
    commands.append([*keytool, "-importkeystore", *source, "-destkeystore", client, "-deststoretype", kind])
    for command in commands:
        subprocess.run(command, check=True, capture_output=True)
    return {"ca": str(trust), "cert": str(client)}


@pytest.mark.parametrize("kind", ["pkcs12", "jks"])
def test_key_stores_open_a_listener_for_both_clients(project, secured, kafka, monkeypatch, kind):
    topic, target = kafka.create(), kafka.create()
    kafka.send(topic, "a")
    monkeypatch.setenv("STORES", "st0re-pw")
    tls = {**stores(secured, project.folder, kind), "password": "${env:STORES}"}

    project.run(copied(secured, "mutual-tls", topic, target, tls=tls))

    assert kafka.values(target, 1) == ["a"]


def test_a_wrong_password_of_a_key_store_is_named(project, secured, refusal):
    tls = {**stores(secured, project.folder, "jks"), "password": "wr0ng-pw"}

    said = refusal(project.load, copied(secured, "mutual-tls", "t", "t", tls=tls))

    assert said.endswith("client.jks' cannot be opened: wrong password; correct 'tls.password'")


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


def test_a_right_that_is_taken_away_before_the_query_starts_is_named_without_java(project, secured, kafka, refusal):
    topic, target = kafka.create(), kafka.create()
    kafka.send(topic, "a")
    reader = project.load(copied(secured, "sasl-scram", topic, target))
    secured.restrict(topic, READ="User:someone")

    said = refusal(project.run_once, reader)

    assert said == (
        f"{project.folder}/pipeline.yaml:4:3: source 'rows': Kafka at {secured.at('sasl-scram')} does not let us read "
        f"topic '{topic}'; have an ACL added that allows READ on it"
    )


def test_a_sink_that_may_no_longer_write_is_named_without_java(project, secured, kafka, refusal):
    topic, target = kafka.create(), kafka.create()
    kafka.send(topic, "a")
    writer = project.load(copied(secured, "sasl-scram", topic, target))
    secured.restrict(target, WRITE="User:someone")

    said = refusal(project.run_once, writer)

    assert said.startswith(f"{project.folder}/pipeline.yaml:")
    assert "sink 'out': " in said
    assert f"Not authorized to access topics: [{target}]" in said
    assert "\tat " not in said
