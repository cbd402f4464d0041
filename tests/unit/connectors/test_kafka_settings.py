"""Options of Kafka's client: what is harmless passes, everything else is refused with what to do."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from penstock.connectors.kafka import KafkaSink, KafkaSource
from penstock.connectors.kafka.settings import validate_options


def refused(**options: str) -> str:
    with pytest.raises(ValueError) as caught:
        validate_options({name.replace("_", "."): value for name, value in options.items()})
    return str(caught.value)


@pytest.mark.parametrize(
    "name", ["kafka.session.timeout.ms", "kafka.client.id", "kafka.acks", "groupIdPrefix", "groupidprefix"]
)
def test_a_harmless_option_passes(name):
    assert validate_options({name: "x"}) == {name: "x"}


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("kafka.sasl.jaas.config", " is not allowed; use 'sasl: {mechanism, user, password}'"),
        ("kafka.SASL.jaas.config", " is not allowed; use 'sasl: {mechanism, user, password}'"),
        ("kafka.sasl.oauthbearer.token.endpoint.url", " is not allowed: it calls URLs and reads files; use 'sasl: "),
        ("kafka.sasl.oauthbearer.jwks.endpoint.url", " is not allowed: it calls URLs and reads files; use 'sasl: "),
        ("kafka.sasl.login.callback.handler.class", " is not allowed: it loads a class; use 'sasl: "),
        ("kafka.sasl.kerberos.kinit.cmd", " is not allowed: it runs a program; use 'sasl: "),
        ("kafka.ssl.engine.factory.class", " is not allowed: it loads a class; use 'tls: {ca, cert, key, password}'"),
        ("kafka.ssl.truststore.location", " is not allowed: it reads a file; use 'tls: {ca, cert, key, password}'"),
        ("kafka.ssl.keystore.key", " is not allowed; use 'tls: {ca, cert, key, password}'"),
        ("kafka.ssl.endpoint.identification.algorithm", " is not allowed; take it out; the broker's name is always "),
        ("kafka.security.protocol", " is not allowed; use 'tls' and 'sasl'; the protocol follows from them"),
        ("kafka.security.providers", " is not allowed: it loads classes; "),
        ("kafka.metric.reporters", " is not allowed: it loads classes; "),
        ("kafka.partitioner.class", " is not allowed: it loads a class; "),
        ("kafka.partition.assignment.strategy", " is not allowed: it loads a class; "),
        ("kafka.config.providers", " is not allowed: it loads classes; "),
        ("kafka.config.providers.file.class", " is not allowed: it loads a class; "),
        ("kafka.ackz", " is not allowed; did you mean 'kafka.acks'?"),
        ("something", " is not allowed; take it out; settings of Kafka's client begin with 'kafka.'"),
    ],
)
def test_what_loads_reads_calls_or_is_unknown_is_refused(name, says):
    with pytest.raises(ValueError) as caught:
        validate_options({name: "x"})

    assert f"the option {name!r}{says}" in str(caught.value)


def test_what_spark_forbids_and_what_has_a_name_here_is_said_so():
    assert refused(kafka_bootstrap_servers="x") == "Spark does not allow 'bootstrap.servers'; use 'servers'"
    assert refused(subscribe="x") == "'subscribe' has its own option here; use 'topics'"


@pytest.mark.parametrize("made", [KafkaSource, KafkaSink])
def test_source_and_sink_refuse_alike(made):
    target = {"topics": ["t"]} if made is KafkaSource else {"topic": "t"}

    with pytest.raises(ValidationError, match="is not allowed: it loads classes"):
        made.model_validate({"servers": "b:1", "options": {"kafka.metric.reporters": "x"}, **target})


def test_the_python_client_gets_what_both_clients_know():
    options = {"kafka.client.id": "me", "kafka.max.poll.records": 5, "kafka.linger.ms": 7}

    source = KafkaSource.model_validate({"servers": "b:1", "topics": ["t"], "options": options})
    sink = KafkaSink.model_validate({"servers": "b:1", "topic": "t", "options": options})

    assert source.client_settings == {"bootstrap.servers": "b:1", "client.id": "me"}
    assert sink.client_settings == {"bootstrap.servers": "b:1", "client.id": "me", "linger.ms": 7}
