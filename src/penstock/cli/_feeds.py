"""Shared by `feed` and `record`: option types with units, and a progress line."""

from __future__ import annotations

import math
import re
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
from penstock.feeds.kafka import KafkaTarget
from penstock.feeds.loop import Target
from penstock.feeds.pace import Burst
from penstock.feeds.targets import FilesTarget, SocketTarget
from penstock.options import Secret
from penstock.text import did_you_mean

_TTY_SECONDS = 0.2
_LOG_SECONDS = 10.0


class ParsedValue(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """An option parsed by a function of `penstock.cli._feeds`."""

    def __init__(self, name: str, read: Callable[[str], Any]) -> None:
        self.name, self._read = name, read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The parsed value; a usage error with the message of its ValueError."""
        try:
            return self._read(value) if isinstance(value, str) else value
        except ValueError as error:
            self.fail(str(error), param, ctx)


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


_UNITS = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 0.001),
    **dict.fromkeys(("s", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86_400.0),
}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)")
_BURST = re.compile(r"(?P<times>[\d.]+)x(\s+for\s+(?P<long>.+?))?(\s+every\s+(?P<every>.+))?")


def parse_duration(text: str) -> float:
    """The seconds in '60s', '5m', '1h 30m' or '10 minutes'."""
    found = _DURATION.findall(text.lower())
    if not found or _DURATION.sub("", text.lower()).strip() or any(unit not in _UNITS for _, unit in found):
        raise ValueError(f"{text!r} is not a duration; write 30s, 5m, 1h 30m or '10 minutes'")
    total = sum(float(count) * _UNITS[unit] for count, unit in found)
    if total <= 0:
        raise ValueError(f"{text!r} is zero; write 30s, 5m or 1h")
    return total


def parse_rate(text: str) -> float:
    """Records per second."""
    return _positive(text.lower().removesuffix("/s"), f"{text!r} is not a rate; write records a second, like 1000")


def parse_share(text: str) -> float:
    """A share between 0 and 1, from '5%' or '0.05'."""
    number = text.strip()
    try:
        found = float(number.removesuffix("%")) / (100 if number.endswith("%") else 1)
    except ValueError:
        found = math.nan
    if not 0 <= found <= 1:
        raise ValueError(f"{text!r} is not a share; write a percentage, like 5%")
    return found


def parse_speed_factor(text: str) -> float | None:
    """The factor in '1x' or '10x'; None for 'max'."""
    if text.strip().lower() == "max":
        return None
    return _positive(text.lower().removesuffix("x"), f"{text!r} is not a speed; write 1x, 10x, 0.5x or max")


def parse_burst(text: str) -> Burst:
    """A burst, from '10x' or '10x for 2s every 30s'."""
    says = f"{text!r} is not a burst; write '10x', or '10x for 2s every 30s'"
    found = _BURST.fullmatch(text.strip().lower())
    if found is None:
        raise ValueError(says)
    usual = Burst(_positive(found["times"], says))
    parsed = Burst(
        usual.times,
        parse_duration(found["long"]) if found["long"] else usual.for_seconds,
        parse_duration(found["every"]) if found["every"] else usual.every_seconds,
    )
    if parsed.for_seconds >= parsed.every_seconds:
        raise ValueError(f"{text!r} is a burst without a pause; make 'for' shorter than 'every'")
    return parsed


def _positive(text: str, says: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not (0 < found < math.inf):
        raise ValueError(says)
    return found


RATE = ParsedValue("rate", parse_rate)
DURATION = ParsedValue("duration", parse_duration)
SHARE = ParsedValue("share", parse_share)
BURST = ParsedValue("burst", parse_burst)
SEPARATOR = ParsedValue("separator", lambda text: text.replace("\\t", "\t"))
# `max` is None in the feed, but None means "not given" to click.
SPEED = ParsedValue("speed", lambda text: parse_speed_factor(text) or 0.0)
