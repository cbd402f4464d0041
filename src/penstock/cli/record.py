"""penstock record"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from penstock.cli import _feeds as _feeding
from penstock.cli import print_status
from penstock.cli._feeds import WAIT_SECONDS, TargetOptions, parse_topic
from penstock.connectors.kafka import EMBEDDED, KafkaSink, KafkaSource
from penstock.errors import CallError
from penstock.feeds.topic import Recorder


@click.command(short_help="Record a topic in a file that `feed --file` replays.")
@click.argument("topic")
@click.option("--to", "file", type=click.Path(path_type=Path), required=True, help="The .jsonl file to write.")
@click.option("--servers", default=EMBEDDED, show_default=True, envvar="KAFKA_SERVERS", help="The brokers of TOPIC.")
@click.option(
    "--connection", default="${env:EVENTHUBS_CONNECTION}", show_default=True, help="Connection string of HUB."
)
@click.option("--ca", envvar="KAFKA_CA", help="HUB: CA certificates to trust instead of the system's.")
@click.option("--count", type=click.IntRange(1), help="Stop after this many records.")
@click.option("--for", "for_seconds", type=_feeding.DURATION, help="Stop after this time: 60s, 5m, '10 minutes'.")
@click.option("--start", type=click.Choice(["earliest", "latest"]), default="earliest", show_default=True)
@click.option("--follow", is_flag=True, help="Keep waiting for new records, until --count, --for or Ctrl-C.")
@click.option("--overwrite", is_flag=True, help="Overwrite an existing file.")
def command(topic: str, file: Path, **options: Any) -> None:
    """Record a TOPIC: kafka:NAME, eventhubs:HUB, or FILE:NAME of a source or sink.

    Records keys, values and headers byte for byte, timestamps and partitions, up to the current end of the topic
    unless --follow. The file appears when it is complete. No consumer group's offsets are committed.

    Example: penstock record kafka:trades --to trades.jsonl --count 10000
    """
    _feeding.end_on_sigterm()
    if file.exists() and not options["overwrite"]:
        raise CallError(f"{file} already exists; give another name, or --overwrite")
    if options["start"] == "latest" and not options["follow"]:
        raise CallError("--start latest has no records yet; add --follow")
    target_options = TargetOptions(options["servers"], options["connection"], options["ca"], file.stem)
    source = _source_of(parse_topic(topic, target_options))
    name = source.topics[0]
    progress = _feeding.Progress(name, options["count"])
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


def _source_of(sink: KafkaSink) -> KafkaSource:
    """A source that reads the sink's topic, once its broker answers."""
    source = KafkaSource.model_construct(
        servers=sink.servers, tls=sink.tls, sasl=sink.sasl, options=sink.options, topics=(sink.topic or "",)
    )
    from penstock.engine.prepare import probe, service_address

    if source.services:
        source = source.with_service_address("kafka", service_address("kafka", print_status))
    probe(source, WAIT_SECONDS, print_status)
    return source
