"""penstock record"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from penstock.cli import _feeding as given
from penstock.cli import say
from penstock.cli._targets import WAIT_SECONDS, Words, topic_of
from penstock.connectors.kafka import EMBEDDED, KafkaSink, KafkaSource
from penstock.errors import CallError
from penstock.feeds.topic import Recorder


@click.command(short_help="Store what a topic carries in a file that `feed --file` replays.")
@click.argument("topic")
@click.option("--to", "file", type=click.Path(path_type=Path), required=True, help="The file, a .jsonl.")
@click.option("--servers", default=EMBEDDED, show_default=True, envvar="KAFKA_SERVERS", help="The brokers of TOPIC.")
@click.option("--connection", default="${env:EVENTHUBS_CONNECTION}", show_default=True, help="What opens HUB.")
@click.option("--ca", envvar="KAFKA_CA", help="HUB: certificates to trust instead of the system's.")
@click.option("--count", type=click.IntRange(1), help="At most so many records.")
@click.option("--for", "for_seconds", type=given.DURATION, help="At most so long: 60s, 5m, '10 minutes'.")
@click.option("--start", type=click.Choice(["earliest", "latest"]), default="earliest", show_default=True)
@click.option("--follow", is_flag=True, help="Wait for more at the end, until --count, --for or Ctrl-C.")
@click.option("--overwrite", is_flag=True, help="Replace the file if it is there.")
def command(topic: str, file: Path, **options: Any) -> None:
    """Store the records of a TOPIC: kafka:NAME, eventhubs:HUB, or FILE:NAME of a source or sink.

    Keys, values and headers byte for byte, timestamps and partitions; up to the end of what is there now, unless
    --follow. The file appears when it is complete. Nothing is committed to any consumer group.

    Example: penstock record kafka:trades --to trades.jsonl --count 10000
    """
    given.end_on_sigterm()
    if file.exists() and not options["overwrite"]:
        raise CallError(f"{file} is there already; give another name, or --overwrite")
    if options["start"] == "latest" and not options["follow"]:
        raise CallError("--start latest has nothing before it to record; add --follow")
    words = Words(options["servers"], options["connection"], options["ca"], file.stem)
    source = _ready(topic_of(topic, words))
    name = source.topics[0]
    progress = given.Progress(name, options["count"])
    recorder = Recorder(
        source.client_settings, name, file, options["start"], options["follow"], options["count"],
        options["for_seconds"], progress,
    )  # fmt: skip
    began = time.monotonic()
    try:
        count = recorder.run()
    finally:
        progress.end()
    click.echo(f"recorded {count:,} records of {name} in {file} in {time.monotonic() - began:.1f} s")


def _ready(sink: KafkaSink) -> KafkaSource:
    """What reads the topic that the sink writes, once its broker answers."""
    source = KafkaSource.model_construct(
        servers=sink.servers, tls=sink.tls, sasl=sink.sasl, options=sink.options, topics=(sink.topic or "",)
    )
    if source.services:
        from penstock.engine.prepare import service_address

        source = source.at("kafka", service_address("kafka", say))
    source.preflight(WAIT_SECONDS, say)
    return source
