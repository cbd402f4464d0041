"""penstock feed"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable

import click

from penstock.cli import say
from penstock.connectors.kafka import EMBEDDED, MissingTopicError, create_topics, require_topics
from penstock.errors import CallError
from penstock.feeds import FEEDS
from penstock.feeds.kafka import send


@click.command(short_help="Send made-up records to a Kafka topic.")
@click.argument("kind", type=click.Choice(sorted(FEEDS)))
@click.option("--to", "target", required=True, help="Where to: kafka:TOPIC.")
@click.option("--servers", default=EMBEDDED, show_default=True, envvar="KAFKA_SERVERS", help="The brokers.")
@click.option("--count", type=click.IntRange(1), default=1000, show_default=True, help="How many records.")
@click.option("--rate", type=click.FloatRange(0, min_open=True), help="Records a second (default: as fast as it goes).")
@click.option("--seed", default=7, show_default=True, help="The same seed gives the same records.")
def command(kind: str, target: str, servers: str, count: int, rate: float | None, seed: int) -> None:
    """Send made-up records of a KIND.

    Example: penstock feed trades --to kafka:trades --count 10000 --rate 500
    """
    system, _, topic = target.partition(":")
    if system != "kafka" or not topic:
        raise CallError(f"--to {target!r} is not a target; write kafka:TOPIC")
    address = _address(servers)
    try:
        require_topics(address, (topic,), 30, say)
    except MissingTopicError:
        if servers != EMBEDDED:
            raise
        create_topics(address, (topic,))
    began = time.monotonic()
    sent = send(address, topic, itertools.islice(FEEDS[kind](seed), count), rate, _progress(count, topic))
    seconds = time.monotonic() - began
    click.echo(f"sent {sent:,} {kind} to {topic} in {seconds:.1f} s ({sent / seconds:,.0f} records/s)")


def _address(servers: str) -> str:
    if servers != EMBEDDED:
        return servers
    from penstock.engine.prepare import service_address

    return service_address("kafka", say)


def _progress(count: int, topic: str) -> Callable[[int], None]:
    if not sys.stderr.isatty():
        return lambda _: None
    return lambda acked: click.echo(f"\r{topic}: {acked:,} of {count:,}", nl=acked >= count, err=True)
