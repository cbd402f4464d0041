"""The connection string's form, and where a query begins."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from penstock.connectors.eventhubs import EventHubsSink, EventHubsSource
from penstock.connectors.eventhubs.__init__ import parse_connection_string
from penstock.connectors.eventhubs._start import Start, parse
from penstock.options import Secret

NAMESPACE = "Endpoint=sb://shop.servicebus.windows.net/;SharedAccessKeyName=demo;SharedAccessKey=abc+/1=="
HUB = f"{NAMESPACE};EntityPath=orders"


def source(**options: object) -> EventHubsSource:
    return EventHubsSource.model_validate(options)


def refused(**options: object) -> str:
    with pytest.raises(ValidationError) as caught:
        source(**options)
    return str(caught.value.errors()[0]["ctx"]["error"])


def test_a_connection_string_says_everything():
    settings = source(connection=Secret(HUB)).client_settings

    assert settings["bootstrap.servers"] == "shop.servicebus.windows.net:9093"
    assert settings["security.protocol"] == "SASL_SSL"
    assert settings["sasl.mechanism"] == "PLAIN"
    assert settings["sasl.username"] == "$ConnectionString"
    assert settings["sasl.password"] == HUB
    assert source(connection=HUB)._kafka.topics == ("orders",)


def test_namespace_hub_policy_and_key_say_the_same():
    parts = {"namespace": "shop", "hub": "orders", "policy": "demo", "key": "abc+/1=="}

    made = source(**parts)

    assert made.client_settings["sasl.password"] == NAMESPACE
    assert made.client_settings == source(connection=NAMESPACE, hub="orders").client_settings


def test_other_clouds_and_ports_are_taken_from_the_endpoint():
    assert (
        parse_connection_string(HUB.replace("windows.net/", "usgovcloudapi.net")).servers
        == "shop.servicebus.usgovcloudapi.net:9093"
    )
    assert parse_connection_string(HUB.replace("windows.net/", "windows.net:1234/")).port == 1234


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "give 'connection', the connection string; or 'namespace', 'hub', 'policy' and 'key'"),
        ({"connection": NAMESPACE}, "the connection string is a namespace's and names no hub; add 'hub'"),
        ({"connection": HUB, "hub": "x"}, "'hub' is 'x', and the connection string is for 'orders'; keep one of them"),
        ({"connection": HUB, "policy": "x"}, "'connection' already has it; take 'policy' out, or 'connection'"),
        ({"connection": NAMESPACE, "hub": "a b"}, "'a b' cannot be the name of an Event Hub; "),
        ({"connection": "hunter2"}, "the connection string has a part without '='; copy it whole from the portal"),
        ({"connection": HUB.replace("SharedAccessKey=", "Key=")}, "the connection string has 'Key' in it; "),
        ({"connection": "Endpoint=sb://a/;EntityPath=x"}, "has no 'SharedAccessKeyName' and no 'SharedAccessKey'; "),
        ({"connection": HUB.replace("sb://", "https://")}, "the 'Endpoint' of the connection string is not sb://"),
        ({"connection": HUB + ";EntityPath=orders"}, "the connection string has 'EntityPath' twice; "),
        (
            {"namespace": "a b", "hub": "h", "policy": "p", "key": "k"},
            "'namespace' is 'a b'; give its name, or its host",
        ),
        ({"connection": HUB, "start": "begin"}, "'begin' is not where a query can start; write start, end, a time"),
        ({"connection": HUB, "options": {"kafka.metric.reporters": "x"}}, "it loads classes"),
    ],
)
def test_a_form_that_is_wrong_is_named_without_its_values(options, says):
    said = refused(**options)

    assert says in said
    assert "abc+/1" not in said
    assert "hunter2" not in said


@pytest.mark.parametrize(
    ("start", "means"),
    [
        ("start", Start(word="earliest")),
        ("end", Start(word="latest")),
        ("2024-05-01 12:00:00", Start(time="2024-05-01 12:00:00")),
        (7, Start(sequence=7)),
        ({0: 5, "1": 6}, Start(partitions={0: 5, 1: 6})),
        ({"offset": "-1", "seqNo": -1, "enqueuedTime": None, "isInclusive": True}, Start(word="earliest")),
        ('{"offset":"-1","seqNo":-1,"enqueuedTime":null,"isInclusive":true}', Start(word="earliest")),
        ({"offset": "@latest", "seqNo": -1, "enqueuedTime": None, "isInclusive": True}, Start(word="latest")),
        ({"seqNo": 4, "isInclusive": True}, Start(sequence=4)),
        ({"seqNo": 4, "isInclusive": False}, Start(sequence=5)),
        ({"enqueuedTime": "2024-05-01T12:00:00Z"}, Start(time="2024-05-01T12:00:00+00:00")),
        (
            {"enqueuedTime": "2024-05-01T12:00:00Z", "isInclusive": False},
            Start(time="2024-05-01T12:00:00.001000+00:00"),
        ),
    ],
)
def test_a_start_in_our_words_or_in_the_classic_ones(start, means):
    assert parse(start) == means


@pytest.mark.parametrize(
    ("start", "says"),
    [
        ("soon", "'soon' is not where a query can start; "),
        (True, "True is not where a query can start; "),
        (-3, "-3 is not the number of an event; give 0 or more"),
        ("{nope", "'start' is not JSON ("),
        ({"offset": "4096"}, "the offset '4096' counts bytes, and the Kafka endpoint counts events; "),
        ({"seqNo": -1, "seqno": 3}, "the startingPosition has an unknown key 'seqno'; did you mean 'seqNo'?"),
        ({"a": 1}, "{'a': 1} is not where a query can start; "),
    ],
)
def test_a_start_that_is_none_is_refused(start, says):
    with pytest.raises(ValueError) as caught:
        parse(start)

    assert says in str(caught.value)


def test_a_number_is_kept_within_what_the_hub_still_has():
    start = parse(5)

    assert [start.first(0, *bounds) for bounds in ((0, 9), (7, 9), (0, 3))] == [5, 7, 3]
    assert parse({0: 5}).first(1, 2, 9) == 2


def test_the_sink_sends_without_what_event_hubs_do_not_take():
    plain = EventHubsSink.model_validate({"connection": HUB})._kafka
    keyed = EventHubsSink.model_validate({"connection": HUB, "partition_key": "who"})._kafka

    assert plain.spark_options["kafka.compression.type"] == "none"
    assert plain.spark_options["kafka.partitioner.class"].endswith("RoundRobinPartitioner")
    assert "kafka.partitioner.class" not in keyed.spark_options
    assert plain.client_settings["compression.type"] == "none"
