"""Before Spark starts: paths made absolute, services up, outside systems asked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from penstock import jars
from penstock.connector import Embeddable, PrintStatus, Probeable, RemoteOptions
from penstock.errors import PenstockError
from penstock.model import Pipeline, Sink, Source, Target
from penstock.services import SERVICES, dev_folder

WAIT_SECONDS = 30.0

_Node = TypeVar("_Node", Source, Target)


def prepare(pipeline: Pipeline, print_status: PrintStatus, wait_seconds: float = WAIT_SECONDS) -> Pipeline:
    """The pipeline with every path absolute and every service of this machine up and named by its address."""
    addresses: dict[str, str] = {}

    def ready(node: _Node, owner: Source | Sink) -> _Node:
        try:
            return _ready(Path(pipeline.folder), node, addresses, print_status, wait_seconds)
        except PenstockError as error:
            if isinstance(node, Target) and node.optional:
                print_status(f"{node.at}: sink {owner.name!r}: the optional target {node.name!r} is away: {error}")
                return _with_absolute_paths(Path(pipeline.folder), node)
            what = "source" if isinstance(owner, Source) else "sink"
            raise error.add_place(f"{node.at}: {what} {owner.name!r}") from error

    return replace(
        pipeline,
        sources=tuple(ready(source, source) for source in pipeline.sources),
        sinks=tuple(
            replace(sink, targets=tuple(ready(target, sink) for target in sink.targets)) for sink in pipeline.sinks
        ),
    )


def absolute(pipeline: Pipeline) -> Pipeline:
    """The pipeline with every path absolute: relative ones are in the folder of the file."""
    folder = Path(pipeline.folder)
    return replace(
        pipeline,
        sources=tuple(_with_absolute_paths(folder, source) for source in pipeline.sources),
        sinks=tuple(
            replace(sink, targets=tuple(_with_absolute_paths(folder, target) for target in sink.targets))
            for sink in pipeline.sinks
        ),
    )


def service_address(name: str, print_status: PrintStatus) -> str:
    """Start a service of this machine unless it runs, and say that it stays; where it is."""
    service = SERVICES[name](dev_folder() / name, jars.paths([SERVICES[name].jars]))
    was_running = service.status().state == "running"
    address = service.start(print_status)
    if not was_running:
        print_status(f"started {name} on {address}; it stays up until `penstock dev down {name}`")
    return address


def _ready(
    folder: Path, node: _Node, addresses: dict[str, str], print_status: PrintStatus, wait_seconds: float
) -> _Node:
    connector = node.connector.with_absolute_paths(folder)
    is_embedded = isinstance(connector, Embeddable) and bool(connector.services)
    if isinstance(connector, Embeddable):
        for name in connector.services:
            addresses[name] = addresses.get(name) or service_address(name, print_status)
            connector = connector.with_service_address(name, addresses[name])
    probe(connector, wait_seconds, print_status, create=is_embedded)
    if isinstance(connector, RemoteOptions):
        connector = connector.resolve_remote()
    return replace(node, connector=connector)


def probe(connector: object, wait_seconds: float, print_status: PrintStatus, *, create: bool = False) -> None:
    """Ask the outside system whether it will serve a connector's options; with `create`, create what is missing."""
    if not isinstance(connector, Probeable):
        return
    try:
        for _ in connector.probe(wait_seconds, print_status):
            pass
    except PenstockError as error:
        created = connector.create_missing(error) if create and isinstance(connector, Embeddable) else None
        if created is None:
            raise
        print_status(created)


def _with_absolute_paths(folder: Path, node: _Node) -> _Node:
    return replace(node, connector=node.connector.with_absolute_paths(folder))
