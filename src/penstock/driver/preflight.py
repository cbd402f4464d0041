"""Before the first row: the checkpoint is what was left here, and the broker still has what it expects."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from penstock.driver.recorder import journal_missing_commits, parse_offset, sink_storages
from penstock.errors import PenstockError, RunError
from penstock.model import Pipeline, Sink, Source
from penstock.options import Gap
from penstock.storage import files
from penstock.storage.layout import Storage
from penstock.storage.reset import reset_sink
from penstock.storage.verify import SinkStorage, find_problems
from penstock.watch.snapshot import rows_by_source

Tell = Callable[..., None]


class CheckpointError(PenstockError):
    """The checkpoint is not what was left here."""


@dataclass(frozen=True)
class Preflight:
    """What is looked at before Spark starts."""

    pipeline: Pipeline
    storage: Storage
    tell: Tell
    anew: bool = False

    def run(self) -> None:
        """An error that names every problem, or a checkpoint that can be gone on from."""
        known = sink_storages(self.pipeline, self.storage)
        self._verify(known)
        for name, sink in known.items():
            adopted = journal_missing_commits(sink)
            if adopted:
                self.tell("checkpoint", sink=name, says=f"{adopted} batches were committed just before a crash")
        for sink_name, sink in known.items():
            self._resume(self._sink(sink_name), sink)
        for source in self.pipeline.sources:
            self._remember(source)

    def _verify(self, known: Mapping[str, SinkStorage]) -> None:
        found = []
        for name, sink in known.items():
            wrong = find_problems(sink)
            if wrong and self.anew:
                kept = reset_sink(sink, f"{datetime.now(timezone.utc):%Y%m%d-%H%M%S}")
                self.tell("checkpoint", sink=name, says=f"begun anew; what was there is in {kept}")
                wrong = find_problems(sink)
            found += [f"{self._sink(name).at}: sink {name!r}: {problem}" for problem in wrong]
        if found:
            raise CheckpointError("\n".join(found))

    def _resume(self, sink: Sink, known: SinkStorage) -> None:
        """Ask every source whether it can go on from where the checkpoint is."""
        offsets, commits = known.checkpoint.numbers("offsets"), known.checkpoint.numbers("commits")
        if not commits:
            return
        last, under_way = commits[-1], offsets[-1] > commits[-1]
        for line, positions in enumerate(known.checkpoint.offsets(last)):
            source = self._reader(sink, positions)
            if source is None:
                continue
            moved, gaps = self._asked(source, positions)
            if not gaps:
                continue
            anew = moved != positions and any(not gap.count for gap in gaps)
            if under_way and anew:
                says = "a batch is under way, and the records that it has begun with are of a topic that is gone"
                raise RunError(f"{source.at}: source {source.name!r}: {says}; begin anew with --new-checkpoint")
            self._tell_gaps(sink, source, gaps)
            if not under_way:
                known.checkpoint.rewrite_offsets(last, line, moved)
                files.remove(f"{known.journal.url}/{last}.json")
                journal_missing_commits(known)

    def _asked(self, source: Source, positions: Any) -> tuple[Any, list[Gap]]:
        try:
            return source.connector.resume(positions, self._remembered(source))
        except PenstockError as error:
            raise error.placed(f"{source.at}: source {source.name!r}") from error

    def _tell_gaps(self, sink: Sink, source: Source, gaps: list[Gap]) -> None:
        for gap in gaps:
            self.tell("gap", **gap_facts(sink.name, source.name, gap))

    def _reader(self, sink: Sink, positions: Any) -> Source | None:
        return reader(self.pipeline, sink, positions)

    def _sink(self, name: str) -> Sink:
        return next(sink for sink in self.pipeline.sinks if sink.name == name)

    def _remembered(self, source: Source) -> dict[str, str]:
        found: dict[str, str] = json.loads(files.read(self._file(source)) or b"{}")
        return found

    def _remember(self, source: Source) -> None:
        """What the outside system calls it now."""
        ids = source.connector.identity()
        if ids and ids != self._remembered(source):
            files.write_atomic(self._file(source), json.dumps(ids))

    def _file(self, source: Source) -> str:
        return f"{self.storage.url}/sources/{source.name}.json"


def reader(pipeline: Pipeline, sink: Sink, positions: Any) -> Source | None:
    """The source of a sink that positions in its checkpoint are of."""
    read = [pipeline.streams[name] for name in pipeline.upstream(sink.reads)]
    sources = [node for node in read if isinstance(node, Source) and not node.static]
    return next((source for source in sources if source.connector.reads_positions(positions)), None)


def gaps(pipeline: Pipeline, progress: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """What a batch did not get of its range because it is gone, as facts for the event log."""
    sink = next(sink for sink in pipeline.sinks if sink.name == progress["name"])
    counted = rows_by_source(progress)
    for told in progress.get("sources", ()):
        start, end = parse_offset(told, "startOffset"), parse_offset(told, "endOffset")
        source = reader(pipeline, sink, end)
        if source is not None and start:
            rows = counted.get(source.name, told.get("numInputRows", 0))
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
