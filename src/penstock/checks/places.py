"""Places: outputs, inputs and storage do not overlap. Paths are compared as text."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

from penstock.checks.sql_text import sources_of
from penstock.model import Finding, Pipeline, Sink, Source, Target

_URL = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:/")


def sinks_write_apart(pipeline: Pipeline) -> Iterator[Finding]:
    """No two sinks write to the same place."""
    first: dict[tuple[str, ...], tuple[Sink, Target]] = {}
    for sink, target in _targets(pipeline):
        place = _place(pipeline, target)
        if place is None:
            continue
        other_sink, other = first.setdefault(place, (sink, target))
        if other is not target:
            key = place[1]
            who = f"sinks {other_sink.name!r} and {sink.name!r}"
            if other_sink is sink:
                who = f"targets {other.name!r} and {target.name!r} of sink {sink.name!r}"
            says = f"{who} write to the same {key}, {(target.connector.destination or place)[1]!r}"
            at = pipeline.where(sink, *target.keys, key)
            # Two queries may share a topic on purpose; in one folder they corrupt each other's log.
            yield Finding("sinks-write-apart", at, says, "give each its own", "error" if key == "path" else "warning")


def sinks_do_not_feed_sources(pipeline: Pipeline) -> Iterator[Finding]:
    """No sink writes into a folder that it reads from, directly or through steps."""
    for sink, target in _targets(pipeline):
        written = _path(pipeline, target)
        for source in sources_of(pipeline, sink.reads):
            read = _path(pipeline, source)
            if written and read and _inside(written, read):
                says = f"sink {sink.name!r} writes into the folder that source {source.name!r} reads"
                at = pipeline.where(sink, *target.keys, "path")
                yield Finding("sinks-do-not-feed-sources", at, says, "write to another folder")


def storage_is_no_input(pipeline: Pipeline) -> Iterator[Finding]:
    """Checkpoints and events are not kept in a folder that a source reads."""
    storage = _absolute(pipeline, pipeline.storage or f".penstock/{pipeline.name}")
    for source in pipeline.sources:
        read = _path(pipeline, source)
        if read and _inside(storage, read):
            says = f"the storage is inside the folder that source {source.name!r} reads"
            at = pipeline.places.get(("storage",), pipeline.where(source, source.connector.kind, "path"))
            yield Finding("storage-is-no-input", at, says, "set 'storage' to a folder outside it")


def cluster_has_storage(pipeline: Pipeline) -> Iterator[Finding]:
    """On a cluster the storage is shared by all machines."""
    master = pipeline.spark.get("master") or pipeline.spark.get("spark.master") or "local"
    storage = pipeline.storage
    if master.startswith("local") or storage.startswith("/") or _URL.match(storage):
        return
    found = f"the storage is {storage!r}" if storage else "no storage is set"
    says = f"Spark runs on {master!r}, and {found}"
    at = pipeline.places.get(("storage",)) or pipeline.places.get(("spark",), pipeline.at)
    yield Finding("cluster-has-storage", at, says, "set 'storage' to a URL or an absolute path that all machines share")


def _targets(pipeline: Pipeline) -> Iterator[tuple[Sink, Target]]:
    return ((sink, target) for sink in pipeline.sinks for target in sink.targets)


def _place(pipeline: Pipeline, target: Target) -> tuple[str, ...] | None:
    destination = target.connector.destination
    if destination is None:
        return None
    option, value, *system = destination
    return (target.connector.kind, option, _absolute(pipeline, value) if option == "path" else value, *system)


def _path(pipeline: Pipeline, node: Source | Target) -> str | None:
    path = node.connector.path_option
    return _absolute(pipeline, path) if isinstance(path, str) else None


def _absolute(pipeline: Pipeline, path: str) -> str:
    if _URL.match(path):
        scheme, _, rest = path.partition(":")
        return f"{scheme}:{posixpath.normpath(rest)}"
    return posixpath.normpath(posixpath.join(pipeline.folder, path))


def _inside(inner: str, outer: str) -> bool:
    if inner.startswith("/") != outer.startswith("/"):
        return False
    above = [] if outer == "." else outer.split("/")
    below = inner.split("/")
    if len(below) < len(above) or not all(map(fnmatchcase, below, above)):
        return False
    # Spark skips files and folders that start with a dot or an underscore.
    return not any(part.startswith((".", "_")) for part in below[len(above) :])
