"""The manifest of a pipeline: its graph as the storage keeps it, without any option of a connector."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from penstock.model import Pipeline, Sink, Source, Step
from penstock.redaction import redact_values

#: How Spark's descriptions of sources without topics or a path begin.
_CALLED = {"kafka": "kafka", "rate": "rate", "socket": "textsocket", "files": "filestream", "delta": "delta"}


def manifest(pipeline: Pipeline) -> dict[str, Any]:
    """The file, how long its history is kept, and its graph."""
    file = pipeline.at.file
    nodes = [
        *(_source(source) for source in pipeline.sources),
        *(_step(step) for step in pipeline.steps),
        *(_sink(sink) for sink in pipeline.sinks),
    ]
    return {
        "name": pipeline.name,
        "file": str(Path(file).absolute()) if Path(file).exists() else "",
        "history_seconds": pipeline.history_seconds,
        "nodes": redact_values(nodes),
    }


def _source(source: Source) -> dict[str, Any]:
    return {
        "name": source.name,
        "role": "source",
        "kind": source.connector.kind,
        "reads": [],
        "static": bool(source.static),
        "watermark": f"{source.watermark.column}, {source.watermark.delay}" if source.watermark else "",
        "place": list(source.connector.spark_description),
    }


def _step(step: Step) -> dict[str, Any]:
    return {"name": step.name, "role": "step", "kind": step.what.kind, "reads": list(step.reads)}


def _sink(sink: Sink) -> dict[str, Any]:
    targets = [
        {"name": each.name, "kind": each.connector.kind, "promise": each.connector.promise} for each in sink.targets
    ]
    return {
        "name": sink.name,
        "role": "sink",
        "kind": ", ".join(target["kind"] for target in targets),
        "reads": [sink.reads],
        "mode": sink.mode,
        "trigger": str(sink.trigger),
        "targets": targets,
    }


def sources_of(nodes: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """The streams that come in and lead to a node, in the order of the file."""
    known = {node["name"]: node for node in nodes}
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        current = waiting.pop()
        if current in known and current not in seen:
            seen.add(current)
            waiting += known[current].get("reads", [])
    return [node for node in nodes if node["name"] in seen and node["role"] == "source" and not node.get("static")]


def named_sources(nodes: list[dict[str, Any]], sink: str, described: list[str]) -> list[str]:
    """For each source of a report of Spark, which has no names, the name in the file; its description if none fits."""
    candidates = sources_of(nodes, sink)
    if len(candidates) == 1:
        return [str(candidates[0]["name"])] * len(described)
    names = []
    for text in described:
        words = set(re.split(r"[^\w.-]+", text))
        fitting = [node for node in candidates if node.get("place") and words.issuperset(node["place"])]
        fitting = fitting or [node for node in candidates if text.lower().startswith(_CALLED.get(node["kind"], "?"))]
        unused = [node for node in fitting if node["name"] not in names] or fitting
        names.append(str(unused[0]["name"]) if unused else text[:60])
    return names
