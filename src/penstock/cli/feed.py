"""penstock feed"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable
from pathlib import Path

import click

from penstock.cli import say
from penstock.connectors.kafka import EMBEDDED, KafkaSink, MissingTopicError, create_topics
from penstock.errors import CallError
from penstock.feeds import FEEDS
from penstock.feeds.kafka import send
from penstock.words import did_you_mean

_WAIT_SECONDS = 30


@click.command(short_help="Send made-up records to a Kafka topic.")
@click.argument("kind", type=click.Choice(sorted(FEEDS)))
@click.option("--to", "target", required=True, help="Where to: kafka:TOPIC, or FILE:NAME of a source or sink.")
@click.option("--servers", default=EMBEDDED, show_default=True, envvar="KAFKA_SERVERS", help="The brokers of TOPIC.")
@click.option("--count", type=click.IntRange(1), default=1000, show_default=True, help="How many records.")
@click.option("--rate", type=click.FloatRange(0, min_open=True), help="Records a second (default: as fast as it goes).")
@click.option("--seed", default=7, show_default=True, help="The same seed gives the same records.")
def command(kind: str, target: str, servers: str, count: int, rate: float | None, seed: int) -> None:
    """Send made-up records of a KIND.

    With FILE:NAME they go where that source or sink of a pipeline points, with its certificates and passwords.

    Example: penstock feed trades --to kafka:trades --count 10000 --rate 500
    """
    sink = _ready(_sink(target, servers))
    topic = sink.topic or ""
    began = time.monotonic()
    records = itertools.islice(FEEDS[kind](seed), count)
    sent = send(sink.servers, topic, records, rate, _progress(count, topic), sink.client_settings)
    seconds = time.monotonic() - began
    click.echo(f"sent {sent:,} {kind} to {topic} in {seconds:.1f} s ({sent / seconds:,.0f} records/s)")


def _sink(target: str, servers: str) -> KafkaSink:
    place, _, name = target.rpartition(":")
    if not place or not name:
        raise CallError(f"--to {target!r} is not a target; write kafka:TOPIC, or FILE:NAME of a source or sink")
    return KafkaSink(servers=servers, topic=name) if place == "kafka" else _of_file(place, name)


def _of_file(file: str, name: str) -> KafkaSink:
    from penstock.load import load

    pipeline = load(file)
    ends = {node.name: connector for node, connector in pipeline.ends}
    if name not in ends:
        raise CallError(f"{file} has no source or sink {name!r}; {did_you_mean(name, ends)}")
    connector = ends[name].located(Path(pipeline.folder))
    sender = getattr(connector, "sender", None)
    if sender is None:
        raise CallError(f"{name!r} of {file} is {connector.kind}, and a feed writes to kafka or eventhubs")
    try:
        sink: KafkaSink = sender()
    except ValueError as error:
        raise CallError(f"{name!r} of {file}: {error}; write kafka:TOPIC") from error
    return sink


def _ready(sink: KafkaSink) -> KafkaSink:
    """The sink once its broker answers and its topic is there; on the broker of this machine it is made."""
    embedded = bool(sink.services)
    if embedded:
        from penstock.engine.prepare import service_address

        sink = sink.at("kafka", service_address("kafka", say))
    try:
        sink.preflight(_WAIT_SECONDS, say)
    except MissingTopicError:
        if not embedded:
            raise
        create_topics(sink.servers, (sink.topic or "",))
    return sink


def _progress(count: int, topic: str) -> Callable[[int], None]:
    if not sys.stderr.isatty():
        return lambda _: None
    return lambda acked: click.echo(f"\r{topic}: {acked:,} of {count:,}", nl=acked >= count, err=True)
