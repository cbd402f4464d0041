"""Before Spark starts: paths made absolute, services up, outside systems asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from penstock import jars
from penstock.connectors.kafka import MissingTopicError, create_topics
from penstock.errors import PenstockError
from penstock.model import Pipeline, Sink, Source, Target
from penstock.services import SERVICES, dev_folder

WAIT_SECONDS = 30.0

Say = Callable[[str], None]
_Node = TypeVar("_Node", Source, Target)


def prepare(pipeline: Pipeline, say: Say, wait_seconds: float = WAIT_SECONDS) -> Pipeline:
    """The pipeline with every path absolute and every service of this machine up and named by its address."""
    addresses: dict[str, str] = {}

    def ready(node: _Node, owner: Source | Sink) -> _Node:
        try:
            return _ready(Path(pipeline.folder), node, addresses, say, wait_seconds)
        except PenstockError as error:
            what = "source" if isinstance(owner, Source) else "sink"
            raise error.placed(f"{node.at}: {what} {owner.name!r}") from error

    return replace(
        pipeline,
        sources=tuple(ready(source, source) for source in pipeline.sources),
        sinks=tuple(
            replace(sink, targets=tuple(ready(target, sink) for target in sink.targets)) for sink in pipeline.sinks
        ),
    )


def absolute(pipeline: Pipeline) -> Pipeline:
    """The pipeline with every path absolute: relative ones are beside the file."""
    folder = Path(pipeline.folder)
    return replace(
        pipeline,
        sources=tuple(_located(folder, source) for source in pipeline.sources),
        sinks=tuple(
            replace(sink, targets=tuple(_located(folder, target) for target in sink.targets)) for sink in pipeline.sinks
        ),
    )


def service_address(name: str, say: Say) -> str:
    """Start a service of this machine unless it runs, and say that it stays; where it is."""
    service = SERVICES[name](dev_folder() / name, jars.paths([SERVICES[name].jars]))
    was_running = service.status().state == "running"
    address = service.up(say)
    if not was_running:
        say(f"started {name} on {address}; it stays up until `penstock dev down {name}`")
    return address


def _ready(folder: Path, node: _Node, addresses: dict[str, str], say: Say, wait_seconds: float) -> _Node:
    node = _located(folder, node)
    embedded = node.connector.services
    for name in embedded:
        address = addresses.setdefault(name, "") or service_address(name, say)
        addresses[name] = address
        node = replace(node, connector=node.connector.at(name, address))
    try:
        node.connector.preflight(wait_seconds, say)
    except MissingTopicError as error:
        if not embedded:
            raise
        # The broker of this machine is for trying things out: a topic is made when a pipeline first names it.
        create_topics(error.servers, error.topics)
        say(f"created topic {', '.join(error.topics)} on the embedded broker")
    return replace(node, connector=node.connector.resolve_remote())


def _located(folder: Path, node: _Node) -> _Node:
    return replace(node, connector=node.connector.with_absolute_paths(folder))
