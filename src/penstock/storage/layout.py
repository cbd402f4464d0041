"""Where a pipeline keeps its checkpoints, events and logs: any place that fsspec and Spark both know."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.errors import PenstockError
from penstock.model import Location, Pipeline, Sink
from penstock.permissions import others_can_write
from penstock.storage.manifest import MANIFEST, manifest

DEFAULT = ".penstock"


class StorageError(PenstockError):
    """The pipeline's storage cannot be used."""


@dataclass(frozen=True)
class Storage:
    """The folder of one pipeline inside a storage that may hold several."""

    url: str

    @classmethod
    def of(cls, pipeline: Pipeline) -> Storage:
        """`<storage>/<name>`; a relative storage is beside the pipeline file, wherever the command is called from."""
        root = pipeline.storage or DEFAULT
        if "://" not in root:
            root = str(Path(pipeline.folder, root).resolve())
        return cls(f"{root.rstrip('/')}/{pipeline.name}")

    def checkpoint(self, sink: str) -> str:
        """Where Spark keeps the progress of a sink's query."""
        return f"{self.url}/checkpoints/{sink}"

    @property
    def root(self) -> str:
        """The storage that this is in."""
        return self.url.rsplit("/", 1)[0]

    @property
    def name(self) -> str:
        """The pipeline's."""
        return self.url.rsplit("/", 1)[-1]

    @property
    def lease(self) -> str:
        """Where it is written down which instance writes here."""
        return f"{self.url}/lease"

    @property
    def logs(self) -> Path:
        """Where this machine's logs go: beside the rest if that is a local folder."""
        return Path(self.url, "logs") if "://" not in self.url else Path(DEFAULT, "logs", self.url.rsplit("/", 1)[-1])

    def refuse_if_shared(self, at: Location) -> None:
        """An error if other users can write to the storage that the place `at` in the file declares."""
        if "://" in self.url:
            return
        ours = Path(self.url)
        for path in (ours.parent, ours, *sorted(ours.glob("*")), *sorted(ours.glob("checkpoints/*"))):
            if path.exists() and (who := others_can_write(path)):
                why = "a checkpoint decides what is read and which classes are loaded"
                fix = f"run chmod go-w {path}, or set 'storage' to a folder of your own"
                raise StorageError(f"{at}: the storage {path} can be changed by other users: {who}, and {why}; {fix}")

    def claim(self, pipeline: Pipeline) -> None:
        """Write down whose checkpoints these are; an error if they are another's or cannot be written."""
        for sink in pipeline.sinks:
            owner = f"{self.checkpoint(sink.name)}.json"
            ours = _identity(pipeline, sink)
            known = self._read(owner)
            if known is None:
                self._write(owner, ours)
            elif known != ours:
                says = f"the checkpoint {self.checkpoint(sink.name)} belongs to {_shown(known)}, not to {_shown(ours)}"
                fix = "give this sink or pipeline another name, or 'storage' another place"
                raise StorageError(f"{sink.at}: sink {sink.name!r}: {says}; {fix}")
        self._write(f"{self.url}/{MANIFEST}", manifest(pipeline))

    def is_claimed(self, pipeline: Pipeline) -> bool:
        """Whether this pipeline, or one with sinks of the same names, has come as far as to its checkpoints before."""
        return any(self._read(f"{self.checkpoint(sink.name)}.json") is not None for sink in pipeline.sinks)

    def _read(self, url: str) -> dict[str, Any] | None:
        import fsspec

        try:
            with fsspec.open(url, "r") as file:
                found: dict[str, Any] = json.load(file)
                return found
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            raise StorageError(f"cannot read {url}: {error}; check the storage") from error

    def _write(self, url: str, content: dict[str, Any]) -> None:
        import fsspec

        try:
            if "://" not in url:
                Path(url).parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with fsspec.open(url, "w") as file:
                json.dump(content, file)
        except OSError as error:
            fix = "make that folder writable or set 'storage' to another place"
            raise StorageError(f"cannot write to the storage {self.url}: {error.strerror or error}; {fix}") from error


def _identity(pipeline: Pipeline, sink: Sink) -> dict[str, Any]:
    names = pipeline.upstream(sink.reads)
    sources = {source.name: source.connector.kind for source in pipeline.sources if source.name in names}
    return {"pipeline": pipeline.name, "sink": sink.name, "sources": dict(sorted(sources.items()))}


def _shown(identity: dict[str, Any]) -> str:
    sources = ", ".join(f"{name} ({kind})" for name, kind in identity.get("sources", {}).items())
    return f"sink {identity.get('sink')!r} of pipeline {identity.get('pipeline')!r} reading {sources}"
