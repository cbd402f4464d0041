"""`--to`: the words of a target become the target; shared by `feed` and `record`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from penstock.cli import say
from penstock.connectors.eventhubs import EventHubsSink
from penstock.connectors.kafka import KafkaSink, MissingTopicError, create_topics
from penstock.connectors.kafka.security import Tls
from penstock.errors import CallError, PenstockError
from penstock.feeds.files import FilesTarget
from penstock.feeds.kafka import KafkaTarget
from penstock.feeds.loop import Target
from penstock.feeds.socket import SocketTarget
from penstock.options import Secret
from penstock.text import did_you_mean

WAIT_SECONDS = 30
FORMS = "write kafka:TOPIC, eventhubs:HUB, files:DIR, socket:PORT, or FILE:NAME of a source or sink"


@dataclass(frozen=True)
class Words:
    """What the command line says beside `--to`."""

    servers: str
    connection: str
    ca: str | None
    name: str
    """What the files of a folder are called."""
    suffix: str = "json"
    per_file: int = 1000
    partitions: int = 0
    """How many the topic must have, if records name theirs."""


def target_of(text: str, words: Words) -> tuple[Target, str]:
    """The target that a text like `kafka:trades` names, and what to call it."""
    kind, _, rest = text.partition(":")
    if kind == "files" and rest:
        return FilesTarget(Path(rest), words.name, words.suffix, words.per_file), rest
    if kind == "socket":
        return _socket(rest), text
    sink = ready(topic_of(text, words), words.partitions or 2)
    topic = sink.topic or ""
    return KafkaTarget(sink.servers, topic, sink.client_settings, words.partitions), topic


def topic_of(text: str, words: Words) -> KafkaSink:
    """The topic, or the Event Hub, that a text names."""
    kind, _, rest = text.partition(":")
    if kind == "eventhubs":
        return _hub(rest, words)
    place, _, name = text.rpartition(":")
    if not place or not name:
        raise CallError(f"{text!r} is not a target; {FORMS}")
    return KafkaSink(servers=words.servers, topic=name) if place == "kafka" else _of_file(place, name)


def ready(sink: KafkaSink, partitions: int = 2) -> KafkaSink:
    """The sink once its broker answers and its topic is there; on the broker of this machine it is made."""
    embedded = bool(sink.services)
    if embedded:
        from penstock.engine.prepare import service_address

        sink = sink.at("kafka", service_address("kafka", say))
    try:
        sink.preflight(WAIT_SECONDS, say)
    except MissingTopicError:
        if not embedded:
            raise
        create_topics(sink.servers, (sink.topic or "",), partitions)
    return sink


def secret(option: str, text: str) -> Secret:
    """The secret that `${env:NAME}` or `${file:path}` stands for."""
    from penstock.load.reading import Document
    from penstock.load.variables import substitute

    reading = substitute(Document({"value": text}, option))
    if reading.findings:
        found = reading.findings[0]
        raise CallError(f"{option}: {found.says}; {found.fix}")
    value = reading.document.values["value"]
    if not isinstance(value, Secret) or not value:
        fix = "write '${env:NAME}' or '${file:path}'"
        raise CallError(f"{option} is not from a secret, and everyone on this machine can read a command line; {fix}")
    return value


def _socket(text: str) -> SocketTarget:
    host, _, port = text.rpartition(":")
    if not port.isdigit() or not 0 < int(port) < 65_536:
        raise CallError(f"'socket:{text}' has no port; write socket:9999, or socket:HOST:9999")
    return SocketTarget(host.strip("[]") or "127.0.0.1", int(port), say)


def _hub(name: str, words: Words) -> KafkaSink:
    connection = secret("--connection", words.connection)
    tls = Tls(ca=words.ca) if words.ca else None

    def sender() -> KafkaSink:
        return EventHubsSink(connection=connection, hub=name or None, tls=tls, options={}).sender()

    return _said("eventhubs", sender)


def _of_file(file: str, name: str) -> KafkaSink:
    from penstock.load import load

    if not Path(file).exists():
        raise CallError(f"{file!r} is neither a kind of target nor a file; {FORMS}")
    pipeline = load(file)
    ends = {node.name: connector for node, connector in pipeline.ends}
    if name not in ends:
        raise CallError(f"{file} has no source or sink {name!r}; {did_you_mean(name, ends)}")
    connector = ends[name].with_absolute_paths(Path(pipeline.folder))
    sender = getattr(connector, "sender", None)
    if sender is None:
        raise CallError(f"{name!r} of {file} is {connector.kind}, and a feed writes to kafka or eventhubs")
    return _said(f"{name!r} of {file}", sender)


def _said(who: str, make: Callable[[], KafkaSink]) -> KafkaSink:
    try:
        return make()
    except PenstockError:
        raise
    except ValueError as error:
        from pydantic import ValidationError

        says = error.errors()[0]["msg"].removeprefix("Value error, ") if isinstance(error, ValidationError) else error
        fix = "" if isinstance(error, ValidationError) else "; write kafka:TOPIC"
        raise CallError(f"{who}: {says}{fix}") from error
