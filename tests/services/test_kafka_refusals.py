"""What a real broker refuses, each with its own sentence, soon, and without Java."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.services.fixtures import Kafka
from tests.services.secured import SecuredBroker

from penstock.connectors.kafka import KafkaSink, KafkaSource
from penstock.engine.prepare import probe
from penstock.errors import PenstockError

MOST_SECONDS = 15


@pytest.fixture
def kafka(secured: SecuredBroker) -> Kafka:
    """The plaintext side of the secured broker."""
    return Kafka(secured.address)


@pytest.fixture
def topic(kafka: Kafka) -> str:
    """A fresh topic of the secured broker."""
    return kafka.create()


@pytest.fixture
def refused(secured: SecuredBroker, topic: str) -> Callable[..., str]:
    """The sentence of a refusal; it comes within 15 seconds, whatever the patience."""

    def sentence(listener: str, **more: Any) -> str:
        options = {key: value for key, value in secured.options(listener, **more).items() if value is not None}
        made = KafkaSink if "topic" in options else KafkaSource
        connector = made.model_validate(options if made is KafkaSink else {"topics": [topic], **options})
        began = time.monotonic()
        with pytest.raises(PenstockError) as caught:
            probe(connector, 60, lambda _: None)
        assert time.monotonic() - began < MOST_SECONDS
        assert not caught.value.retry
        return str(caught.value)

    return sentence


def test_a_wrong_ca(secured, refused):
    said = refused("tls", tls={"ca": str(secured.stranger.ca)})

    assert said == (
        f"the certificate of {secured.at('tls')} is issued by 'CN=penstock dev CA', which 'tls.ca' does not trust; "
        "give the CA certificate of this broker as 'tls.ca'"
    )


def test_no_ca(secured, refused):
    assert "which this system (there is no 'tls.ca') does not trust; " in refused("tls", tls={})


def test_a_wrong_host_name(secured, refused):
    assert refused("elsewhere") == (
        f"the certificate of {secured.at('elsewhere')} is for 'kafka.example', not for '127.0.0.1'; "
        "use a name of the certificate in 'servers', or have the certificate changed"
    )


def test_an_expired_certificate(secured, refused):
    said = refused("expired")

    assert said.startswith(f"the certificate of {secured.at('expired')} expired on 20")
    assert said.endswith("; the broker's owner must renew it")


@pytest.mark.parametrize("mechanism", ["plain", "scram-sha-256", "scram-sha-512"])
def test_a_wrong_password(secured, refused, mechanism):
    listener = "sasl-plain" if mechanism == "plain" else "sasl-scram"

    said = refused(listener, sasl=secured.user(mechanism, password="not-it-0815"))

    assert said == (
        f"Kafka at {secured.at(listener)} refuses user 'penstock': wrong user or password ({mechanism.upper()}); "
        "correct 'sasl.user' and 'sasl.password'"
    )


def test_a_topic_that_we_may_not_see(secured, refused, topic):
    secured.restrict(topic, READ="User:someone")

    said = refused("sasl-scram")

    assert said == (
        f"Kafka at {secured.at('sasl-scram')}: user 'penstock' may not see topic '{topic}'; "
        "have an ACL added that allows READ and DESCRIBE on it"
    )


def test_a_topic_that_we_may_write_and_not_read(secured, refused, topic):
    secured.restrict(topic, WRITE="User:penstock")

    said = refused("sasl-plain")

    assert said == (
        f"Kafka at {secured.at('sasl-plain')}: user 'penstock' may not read topic '{topic}'; "
        "have an ACL added that allows READ on it"
    )


def test_a_topic_that_our_certificate_may_read_and_not_write(secured, refused, topic):
    secured.restrict(topic, READ="User:CN=penstock-client")

    said = refused("mutual-tls", topic=topic)

    assert said == (
        f"Kafka at {secured.at('mutual-tls')}: 'CN=penstock-client' may not write topic '{topic}'; "
        "have an ACL added that allows WRITE on it"
    )


def test_a_plaintext_client_on_a_tls_port(secured, refused):
    assert refused("tls", tls=None) == (
        f"{secured.at('tls')} requires TLS, and this connection has none; "
        "add 'tls: {ca: ...}', or 'tls: {}' to trust what this system trusts"
    )


def test_a_tls_client_on_a_plaintext_port(secured, refused):
    assert refused("plaintext", tls=secured.options("tls")["tls"]) == (
        f"{secured.address} does not speak TLS, its connections are plaintext; "
        "use the port of its TLS listener, or take 'tls' and 'sasl' out"
    )


def test_no_certificate_where_one_is_asked_for(secured, refused):
    assert refused("mutual-tls", tls=secured.options("tls")["tls"]) == (
        f"{secured.at('mutual-tls')} requires a client certificate; give 'tls.cert' and 'tls.key'"
    )


def test_a_certificate_that_the_broker_does_not_know(secured, refused):
    strange = {"cert": str(secured.stranger.certificate("client")), "key": str(secured.stranger.key("client"))}

    assert refused("mutual-tls", tls={**secured.options("tls")["tls"], **strange}) == (
        f"{secured.at('mutual-tls')} does not accept our certificate, 'CN=penstock-client'; "
        "give one that the broker's CA has signed"
    )


def test_no_user_where_one_is_asked_for(secured, refused):
    said = refused("sasl-scram", sasl=None)

    assert said.startswith(f"{secured.at('sasl-scram')} requires a user and a password (scram-sha-")
    assert said.endswith("; add 'sasl: {mechanism: ..., user: ..., password: ...}'")


def test_a_user_where_nobody_asks(secured, refused):
    assert refused("tls", sasl=secured.user("plain")) == (
        f"{secured.at('tls')} has no SASL login; take 'sasl' out, or use the port of a SASL listener"
    )


def test_a_mechanism_that_is_not_offered(secured, refused):
    assert refused("sasl-plain", sasl=secured.user("scram-sha-512")) == (
        f"{secured.at('sasl-plain')} offers plain, not scram-sha-512; set 'sasl.mechanism' to one of them"
    )
