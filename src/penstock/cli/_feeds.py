"""Shared by `feed` and `record`: option types with units, and a progress line."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from penstock.cli import print_status
from penstock.connector import Feedable
from penstock.connectors.eventhubs import EventHubsSink
from penstock.connectors.kafka import KafkaSink, MissingTopicError, create_topics
from penstock.connectors.kafka.security import Tls
from penstock.errors import CallError, PenstockError
from penstock.feeds import values
from penstock.feeds.kafka import KafkaTarget
from penstock.feeds.loop import Target
from penstock.feeds.targets import FilesTarget, SocketTarget
from penstock.options import Secret
from penstock.text import did_you_mean

_TTY_SECONDS = 0.2
_LOG_SECONDS = 10.0


class ParsedValue(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """An option parsed by a function of `penstock.feeds.values`."""

    def __init__(self, name: str, read: Callable[[str], Any]) -> None:
        self.name, self._read = name, read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The parsed value; a usage error with the message of its ValueError."""
        try:
            return self._read(value) if isinstance(value, str) else value
        except ValueError as error:
            self.fail(str(error), param, ctx)


RATE = ParsedValue("rate", values.parse_rate)
DURATION = ParsedValue("duration", values.parse_duration)
SHARE = ParsedValue("share", values.parse_share)
BURST = ParsedValue("burst", values.parse_burst)
SEPARATOR = ParsedValue("separator", lambda text: text.replace("\\t", "\t"))
# `max` is None in the feed, but None means "not given" to click.
SPEED = ParsedValue("speed", lambda text: values.parse_speed_factor(text) or 0.0)


class Progress:
    """One line, overwritten on a terminal; a new line every ten seconds in a log."""

    def __init__(self, name: str, of: int | None) -> None:
        self._name, self._of, self._tty = name, of, sys.stderr.isatty()
        self._every = _TTY_SECONDS if self._tty else _LOG_SECONDS
        self._at, self._count = time.monotonic(), 0
        self._shown = False

    def __call__(self, count: int) -> None:
        """Print the count, and the rate since the last line, when a line is due."""
        now = time.monotonic()
        if now - self._at < self._every:
            return
        rate = (count - self._count) / (now - self._at)
        self._at, self._count = now, count
        of = f" of {self._of:,}" if self._of else ""
        text = f"{self._name}: {count:,}{of}, {rate:,.0f} records/s"
        click.echo(f"\r{text:<70}" if self._tty else text, nl=not self._tty, err=True)
        self._shown = True

    def end(self) -> None:
        """End the line on a terminal."""
        if self._tty and self._shown:
            click.echo(err=True)


def end_on_sigterm() -> None:
    """Handle SIGTERM like Ctrl-C: records that were read are still delivered."""

    def interrupt(_signal: int, _frame: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)


WAIT_SECONDS = 30
FORMS = "write kafka:TOPIC, eventhubs:HUB, files:DIR, socket:PORT, or FILE:NAME of a source or sink"


@dataclass(frozen=True)
class TargetOptions:
    """The options that apply to targets."""

    servers: str
    connection: str
    ca: str | None
    name: str
    """The base name of files in a folder."""
    suffix: str = "json"
    per_file: int = 1000
    partitions: int = 0
    """How many the topic needs if the records have partition numbers."""


def parse_target(text: str, options: TargetOptions) -> tuple[Target, str]:
    """The target of a text like `kafka:trades`, and its display name."""
    kind, _, rest = text.partition(":")
    if kind == "files" and rest:
        return FilesTarget(Path(rest), options.name, options.suffix, options.per_file), rest
    if kind == "socket":
        return _socket(rest), text
    sink = wait_until_ready(parse_topic(text, options), options.partitions or 2)
    topic = sink.topic or ""
    return KafkaTarget(sink.servers, topic, sink.client_settings, options.partitions), topic


def parse_topic(text: str, options: TargetOptions) -> KafkaSink:
    """The sink for the topic or Event Hub of a text."""
    kind, _, rest = text.partition(":")
    if kind == "eventhubs":
        return _hub(rest, options)
    place, _, name = text.rpartition(":")
    if not place or not name:
        raise CallError(f"{text!r} is not a target; {FORMS}")
    return KafkaSink(servers=options.servers, topic=name) if place == "kafka" else _sink_of_file(place, name)


def wait_until_ready(sink: KafkaSink, partitions: int = 2) -> KafkaSink:
    """The sink, once its broker answers and its topic exists; a missing topic of the local broker is created."""
    from penstock.engine.prepare import probe, service_address

    is_embedded = bool(sink.services)
    if is_embedded:
        sink = sink.with_service_address("kafka", service_address("kafka", print_status))
    try:
        probe(sink, WAIT_SECONDS, print_status)
    except MissingTopicError:
        if not is_embedded:
            raise
        create_topics(sink.servers, (sink.topic or "",), partitions)
    return sink


def secret(option: str, text: str) -> Secret:
    """The secret of `${env:NAME}` or `${file:path}`."""
    from penstock.load.reader import Document
    from penstock.load.variables import substitute

    reading = substitute(Document({"value": text}, option))
    if reading.findings:
        found = reading.findings[0]
        raise CallError(f"{option}: {found.says}; {found.fix}")
    value = reading.document.values["value"]
    if not isinstance(value, Secret) or not value:
        fix = "write '${env:NAME}' or '${file:path}'"
        raise CallError(f"{option} is in plain text, and every user of this machine can read a command line; {fix}")
    return value


def _socket(text: str) -> SocketTarget:
    host, _, port = text.rpartition(":")
    if not port.isdigit() or not 0 < int(port) < 65_536:
        raise CallError(f"'socket:{text}' has no valid port; write socket:9999, or socket:HOST:9999")
    return SocketTarget(host.strip("[]") or "127.0.0.1", int(port), print_status)


def _hub(name: str, options: TargetOptions) -> KafkaSink:
    connection = secret("--connection", options.connection)
    tls = Tls(ca=options.ca) if options.ca else None

    def sender() -> KafkaSink:
        return EventHubsSink(connection=connection, hub=name or None, tls=tls, options={}).sender()

    return _build("eventhubs", sender)


def _sink_of_file(file: str, name: str) -> KafkaSink:
    from penstock.load import load

    if not Path(file).exists():
        raise CallError(f"{file!r} is neither a kind of target nor a file; {FORMS}")
    pipeline = load(file)
    ends = {node.name: connector for node, connector in pipeline.ends}
    if name not in ends:
        raise CallError(f"{file} has no source or sink {name!r}; {did_you_mean(name, ends)}")
    connector = ends[name].with_absolute_paths(Path(pipeline.folder))
    if not isinstance(connector, Feedable):
        raise CallError(f"{name!r} of {file} is {connector.kind}, and a feed can write only to kafka or eventhubs")
    return _build(f"{name!r} of {file}", connector.sender)


def _build(who: str, make: Callable[[], KafkaSink]) -> KafkaSink:
    try:
        return make()
    except PenstockError:
        raise
    except ValueError as error:
        from pydantic import ValidationError

        says = error.errors()[0]["msg"].removeprefix("Value error, ") if isinstance(error, ValidationError) else error
        fix = "" if isinstance(error, ValidationError) else "; write kafka:TOPIC"
        raise CallError(f"{who}: {says}{fix}") from error
