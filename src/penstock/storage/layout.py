"""A pipeline's storage: every path in it is spelled here, once.

<storage>/<pipeline>/
  pipeline.json                    manifest: the graph of the last run
  lease, lease.<token>             which process may write here
  events/<day>.jsonl               event log
  checkpoints/<sink>/              Spark's checkpoint
  checkpoints/<sink>.json          owner: the pipeline and sink that the checkpoint belongs to, what its state means
  ledger/<sink>/<target>.json      ledger: the last batch of each target
  ledger/<sink>/begun              intent record: the batch in progress
  ledger/<sink>/batches/<n>.json   journal: one record per committed batch
  sources/<source>.json            identities of what a source reads
  before/<mark>/                   checkpoints and ledgers that a reset or a restore replaced
  backups/<mark>/                  `penstock checkpoint backup`
  logs/                            the driver's log, if the storage is a local folder
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.errors import PenstockError
from penstock.model import Location, Pipeline, Sink, Source, Step
from penstock.redaction import redact_values
from penstock.storage import files
from penstock.storage.files import find_other_writers, read_record, write_record

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


DEFAULT = ".penstock"
#: The parts of a storage that a backup has.
BACKED_UP = ("checkpoints", "ledger", "sources")


class StorageError(PenstockError):
    """The pipeline's storage cannot be used."""


@dataclass(frozen=True)
class Storage:
    """The folder of one pipeline inside a storage that may hold several; any place that fsspec and Spark both know."""

    url: str

    @classmethod
    def of(cls, pipeline: Pipeline) -> Storage:
        """`<storage>/<name>`; a relative storage is in the folder of the pipeline file."""
        root = pipeline.storage or DEFAULT
        if files.is_local(root):
            root = str(Path(pipeline.folder, root).resolve())
        return cls.by_name(root, pipeline.name)

    @classmethod
    def by_name(cls, root: str, name: str) -> Storage:
        """The storage of the pipeline of this name, inside a storage of several."""
        return cls(f"{root.rstrip('/')}/{name}")

    @property
    def root(self) -> str:
        """The storage that this is in."""
        return self.url.rsplit("/", 1)[0]

    @property
    def name(self) -> str:
        """The name of the pipeline."""
        return self.url.rsplit("/", 1)[-1]

    @property
    def manifest(self) -> str:
        """The graph of the last run."""
        return f"{self.url}/pipeline.json"

    @property
    def lease(self) -> str:
        """Which process may write here."""
        return f"{self.url}/lease"

    @property
    def events(self) -> str:
        """The event log."""
        return f"{self.url}/events"

    @property
    def checkpoints(self) -> str:
        """The checkpoints of all sinks."""
        return f"{self.url}/checkpoints"

    @property
    def ledgers(self) -> str:
        """The ledgers of all sinks."""
        return f"{self.url}/ledger"

    def checkpoint(self, sink: str) -> str:
        """Spark's checkpoint of a sink's query."""
        return f"{self.checkpoints}/{sink}"

    def owner(self, sink: str) -> str:
        """Which pipeline and sink a checkpoint belongs to."""
        return f"{self.checkpoints}/{sink}.json"

    def ledger(self, sink: str) -> str:
        """What we keep about the batches of a sink."""
        return f"{self.ledgers}/{sink}"

    def target(self, sink: str, target: str) -> str:
        """The last batch of one target."""
        return f"{self.ledger(sink)}/{target}.json"

    def intent(self, sink: str) -> str:
        """The batch in progress."""
        return f"{self.ledger(sink)}/begun"

    def journal(self, sink: str) -> str:
        """The committed batches."""
        return f"{self.ledger(sink)}/batches"

    def source(self, name: str) -> str:
        """The identities of what a source reads."""
        return f"{self.url}/sources/{name}.json"

    def read_manifest(self) -> dict[str, Any]:
        """The graph of the last run; empty if there was none, or if it cannot be read."""
        try:
            return dict(json.loads(files.read(self.manifest) or b"{}"))
        except (ValueError, TypeError):
            return {}

    def source_names(self) -> list[str]:
        """The sources whose identities are kept."""
        names = files.list_names(f"{self.url}/sources")
        return [name.removesuffix(".json") for name in names if name.endswith(".json") and not name.startswith(".")]

    def read_source(self, name: str) -> dict[str, str]:
        """The identities of what a source read last; empty if they are not known."""
        fix = "`penstock checkpoint restore` removes it: the ids are then those that the source has now"
        return read_record(self.source(name), fix) or {}

    def archive(self, mark: str) -> str:
        """Where a reset or a restore moves what it replaces."""
        return f"{self.url}/before/{mark}"

    def backup(self, mark: str) -> str:
        """The default place of a backup."""
        return f"{self.url}/backups/{mark}"

    @property
    def logs(self) -> Path:
        """Where this machine's logs go: with the rest if that is a local folder."""
        return Path(self.url, "logs") if files.is_local(self.url) else Path(DEFAULT, "logs", self.name)

    def sink_names(self) -> list[str]:
        """The sinks that have a checkpoint or a ledger."""
        names = {*files.list_names(self.ledgers), *files.list_names(self.checkpoints)}
        return sorted(name for name in names if not name.endswith(".json") and not name.startswith("."))

    def refuse_if_shared(self, at: Location) -> None:
        """An error if other users can write to the storage that the place `at` in the file declares."""
        if not files.is_local(self.url):
            return
        ours = Path(self.url)
        for path in (ours.parent, ours, *sorted(ours.glob("*")), *sorted(Path(self.checkpoints).glob("*"))):
            if path.exists() and (who := find_other_writers(path)):
                why = "a checkpoint decides what is read and which classes are loaded"
                fix = f"run chmod go-w {path}, or set 'storage' to a folder of your own"
                raise StorageError(f"{at}: the storage {path} can be changed by other users: {who}, and {why}; {fix}")

    def claim(self, pipeline: Pipeline) -> None:
        """Write the owner of each checkpoint and the manifest; an error if a checkpoint belongs to another sink."""
        for sink in pipeline.sinks:
            known, ours = self.read_owner(sink.name), _identity(pipeline, sink)
            if not known:
                self._write(self.owner(sink.name), ours)
            elif {key: known.get(key) for key in ours} != ours:
                says = f"the checkpoint {self.checkpoint(sink.name)} belongs to {_show(known)}, not to {_show(ours)}"
                fix = "give this sink or pipeline another name, or 'storage' another place"
                raise StorageError(f"{sink.at}: sink {sink.name!r}: {says}; {fix}")
        self._write(self.manifest, manifest(pipeline), plain=True)

    def is_claimed(self, pipeline: Pipeline) -> bool:
        """Whether this pipeline, or one with sinks of the same names, has reached its checkpoints before."""
        return any(self.read_owner(sink.name) for sink in pipeline.sinks)

    def read_owner(self, sink: str) -> dict[str, Any]:
        """Which pipeline and sink a checkpoint belongs to; empty if it is new."""
        fix = "`penstock checkpoint restore` removes it, and the next start writes it again"
        return read_record(self.owner(sink), fix) or {}

    def state_of(self, sink: str) -> dict[str, str] | None:
        """What each stateful operator of a checkpoint computes; None if that is not known."""
        found: dict[str, str] | None = self.read_owner(sink).get("state")
        return found

    def keep_state(self, sink: str, operators: dict[str, str]) -> None:
        """Store what the stateful operators of a checkpoint compute."""
        self._write(self.owner(sink), {**self.read_owner(sink), "state": operators})

    def _write(self, url: str, content: dict[str, Any], *, plain: bool = False) -> None:
        try:
            files.write_atomic(url, json.dumps(content)) if plain else write_record(url, content)
        except OSError as error:
            fix = "make that folder writable or set 'storage' to another place"
            raise StorageError(f"cannot write to the storage {self.url}: {error.strerror or error}; {fix}") from error


def _identity(pipeline: Pipeline, sink: Sink) -> dict[str, Any]:
    names = pipeline.upstream(sink.reads)
    sources = {source.name: source.connector.kind for source in pipeline.sources if source.name in names}
    return {"pipeline": pipeline.name, "sink": sink.name, "sources": dict(sorted(sources.items()))}


def _show(identity: dict[str, Any]) -> str:
    sources = ", ".join(f"{name} ({kind})" for name, kind in identity.get("sources", {}).items())
    return f"sink {identity.get('sink')!r} of pipeline {identity.get('pipeline')!r} reading {sources}"
