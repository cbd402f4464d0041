"""Before the first row: the checkpoint is as we left it, and the broker still has what it expects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.connector import Gap, Resumable
from penstock.driver.recorder import journal_missing_commits, parse_offset, sink_storages
from penstock.driver.watches import identity
from penstock.errors import PenstockError, RunError
from penstock.events import Emit
from penstock.model import Pipeline, Sink, Source
from penstock.storage import files
from penstock.storage.files import write_record
from penstock.storage.layout import Storage
from penstock.storage.verify import SinkStorage, find_problems
from penstock.watch.snapshot import rows_by_source


class CheckpointError(PenstockError):
    """The checkpoint is not as we left it."""


@dataclass(frozen=True)
class Preflight:
    """What is verified before Spark starts."""

    pipeline: Pipeline
    storage: Storage
    emit: Emit

    def run(self) -> None:
        """An error that names every problem, or a checkpoint that can be continued from."""
        known = sink_storages(self.pipeline, self.storage)
        self._verify(known)
        for name, sink in known.items():
            count = journal_missing_commits(sink)
            if count:
                self.emit("checkpoint", sink=name, says=f"{count} batches were committed just before a crash")
        for sink_name, sink in known.items():
            self._resume(self._sink(sink_name), sink)
        for source in self.pipeline.sources:
            self._keep_identity(source)

    def _verify(self, known: Mapping[str, SinkStorage]) -> None:
        found = []
        for name, sink in known.items():
            found += [f"{self._sink(name).at}: sink {name!r}: {problem}" for problem in find_problems(sink)]
        if found:
            raise CheckpointError("\n".join(found))

    def _resume(self, sink: Sink, known: SinkStorage) -> None:
        """Ask every source whether it can continue from where the checkpoint is."""
        offsets, commits = known.checkpoint.numbers("offsets"), known.checkpoint.numbers("commits")
        if not offsets:
            return
        is_in_batch = not commits or offsets[-1] > commits[-1]
        # The first batch has no earlier one: it must not be replayed from a topic that is not the one it began with.
        last = commits[-1] if commits else offsets[-1]
        for line, positions in enumerate(known.checkpoint.offsets(last)):
            source = find_reader(self.pipeline, sink, positions)
            if source is None:
                continue
            moved, gaps = self._find_resume(source, positions)
            if not gaps:
                continue
            is_recreated = moved != positions and any(not gap.count for gap in gaps)
            if is_in_batch and is_recreated:
                says = "a batch is in progress, and its records belong to a topic that is gone"
                raise RunError(f"{source.at}: source {source.name!r}: {says}; start over with `penstock reset`")
            for gap in gaps:
                self.emit("gap", **gap_facts(sink.name, source.name, gap))
            if not is_in_batch:
                known.checkpoint.rewrite_offsets(last, line, moved)
                files.remove(f"{known.journal.url}/{last}.json")
                journal_missing_commits(known)

    def _find_resume(self, source: Source, positions: Any) -> tuple[Any, list[Gap]]:
        connector = source.connector
        if not isinstance(connector, Resumable):
            return positions, []
        try:
            return connector.resume(positions, self._known_identity(source))
        except PenstockError as error:
            raise error.add_place(f"{source.at}: source {source.name!r}") from error

    def _sink(self, name: str) -> Sink:
        return next(sink for sink in self.pipeline.sinks if sink.name == name)

    def _known_identity(self, source: Source) -> dict[str, str]:
        return self.storage.read_source(source.name)

    def _keep_identity(self, source: Source) -> None:
        """Store the ids that the outside system has now."""
        ids = identity(source)
        if ids and ids != self._known_identity(source):
            write_record(self.storage.source(source.name), ids)


def find_reader(pipeline: Pipeline, sink: Sink, positions: Any) -> Source | None:
    """The source of a sink that positions in its checkpoint belong to."""
    read = [pipeline.streams[name] for name in pipeline.upstream(sink.reads)]
    sources = [node for node in read if isinstance(node, Source) and not node.static]
    return next((source for source in sources if _reads_positions(source, positions)), None)


def _reads_positions(source: Source, positions: Any) -> bool:
    return isinstance(source.connector, Resumable) and source.connector.reads_positions(positions)


def find_gaps(pipeline: Pipeline, progress: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """What a batch did not get of its range because it is gone, as facts for the event log."""
    sink = next(sink for sink in pipeline.sinks if sink.name == progress["name"])
    counted = rows_by_source(progress)
    for read in progress.get("sources", ()):
        start, end = parse_offset(read, "startOffset"), parse_offset(read, "endOffset")
        source = find_reader(pipeline, sink, end)
        if source is not None and isinstance(source.connector, Resumable) and start:
            rows = counted.get(source.name, read.get("numInputRows", 0))
            for gap in source.connector.missing(start, end, int(rows)):
                yield gap_facts(sink.name, source.name, gap)


def gap_facts(sink: str, source: str, gap: Gap) -> dict[str, Any]:
    """A gap as the event log has it."""
    return {
        "sink": sink,
        "source": source,
        "topic": gap.topic,
        "partition": gap.partition,
        "start": gap.start,
        "end": gap.end,
        "count": gap.count,
        "why": gap.why,
    }
