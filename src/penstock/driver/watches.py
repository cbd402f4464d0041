"""What the driver watches besides its queries: clock, identities of topics, batches that stall, and disks."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.connector import Resumable
from penstock.engine.prepare import probe
from penstock.errors import PenstockError, RunError, UnreachableError
from penstock.events import Emit, ignore_event
from penstock.model import Pipeline, Source

_CLOCK_STEP_SECONDS = 2.0
_TOPIC_SECONDS = 10.0
_LEAST_STALL_SECONDS = 15.0
_FIRST_BATCH_SECONDS = 60.0
_STALL_TIMES = 3.0
_PROBE_SECONDS = 1.0
_DISK_SECONDS = 10.0
_LEAST_FREE_BYTES = 500_000_000
_LEAST_FREE_SHARE = 0.05


def _clock_offset() -> float:
    """How far the wall clock is ahead of the monotonic one, which cannot be set."""
    return time.time() - time.monotonic()


@dataclass
class ClockWatch:
    """Detects the wall clock jumping backwards; Spark's interval trigger would otherwise sleep until it catches up."""

    _offset: float = field(default_factory=_clock_offset)

    def set_back(self) -> float:
        """By how many seconds the clock was set back since the last call; 0 if it was not. Call it periodically."""
        before, self._offset = self._offset, _clock_offset()
        back = before - self._offset
        return back if back > _CLOCK_STEP_SECONDS else 0.0


@dataclass
class TopicWatch:
    """Asks the sources periodically for the ids of their topics; `failure` is why the pipeline cannot continue."""

    pipeline: Pipeline
    wake: Callable[[], None]
    emit: Emit = ignore_event
    failure: RunError | None = None
    _failing: set[str] = field(default_factory=set)
    _known: dict[str, dict[str, str]] = field(default_factory=dict)
    _done: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        """Watch from a thread, until `stop`."""
        self._known = {source.name: ids for source in self.pipeline.sources if (ids := identity(source))}
        if self._known:
            threading.Thread(target=self._watch, name="topics", daemon=True).start()

    def stop(self) -> None:
        """Watch no more."""
        self._done.set()

    def _watch(self) -> None:
        while not self._done.wait(_TOPIC_SECONDS) and self.failure is None:
            for source in self.pipeline.sources:
                self._compare(source)

    def _compare(self, source: Source) -> None:
        known = self._known.get(source.name, {})
        try:
            now = identity(source) if known else {}
        except UnreachableError:
            # A broker that is down is for the queries to notice; they wait for it longer than we would.
            return
        except Exception as error:
            # No access any more, or an answer that we do not understand: it may pass, and the others are watched.
            if source.name not in self._failing:
                self.emit("topic_watch_failed", source=source.name, reason=str(error))
            self._failing.add(source.name)
            return
        self._failing.discard(source.name)
        recreated = [name for name in known if name in now and now[name] != known[name]]
        if recreated:
            says = f"{', '.join(recreated)} was deleted and recreated while it was read"
            fix = "'on_data_loss: earliest' reads it from its beginning, 'skip' from its end"
            retry = isinstance(source.connector, Resumable) and source.connector.skips_lost_data
            self.failure = RunError(f"{source.at}: source {source.name!r}: {says}; {fix}", retry=retry)
            self.wake()


def identity(source: Source) -> dict[str, str]:
    """The outside system's own ids of what a source reads; empty if it has none."""
    return source.connector.identity() if isinstance(source.connector, Resumable) else {}


@dataclass
class StallWatch:
    """Finds queries whose batch takes much longer than the one before."""

    emit: Emit
    find_reason: Callable[[str], str]
    """Why a sink's query waits, as far as the outside systems tell; '' if they are well. May take seconds."""
    _last_seconds: dict[str, float] = field(default_factory=dict)
    _stalled: dict[str, str] = field(default_factory=dict)

    def take_batch(self, progress: Mapping[str, Any]) -> None:
        """A batch has ended, and took so long."""
        self._last_seconds[progress["name"]] = progress.get("durationMs", {}).get("triggerExecution", 0) / 1000

    def look(self, queries: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        """The same facts; a query that is stalled has its reason in `stalled`. Called with every heartbeat."""
        for sink, facts in queries.items():
            if facts["busy_seconds"] > self._most_seconds(sink):
                if sink not in self._stalled:
                    self._stalled[sink] = facts["says"]
                    # Outside systems are asked, and the heartbeat does not wait for their answers.
                    threading.Thread(target=self.explain, args=(sink, dict(facts)), name="stalls", daemon=True).start()
                facts["stalled"] = self._stalled[sink]
            elif self._stalled.pop(sink, None) is not None:
                self.emit("resumed", sink=sink)
        return queries

    def explain(self, sink: str, facts: Mapping[str, Any]) -> None:
        """Find the reason of a stall, and emit it."""
        reason = self.find_reason(sink) or f"Spark says: {facts['says']}"
        if sink in self._stalled:
            self._stalled[sink] = reason
            self.emit("stalled", sink=sink, seconds=facts["busy_seconds"], reason=reason)

    def _most_seconds(self, sink: str) -> float:
        last = self._last_seconds.get(sink)
        return _FIRST_BATCH_SECONDS if last is None else max(_LEAST_STALL_SECONDS, _STALL_TIMES * last)


@dataclass
class DiskWatch:
    """Warns when a disk is almost full: once, and again when it was not in between."""

    emit: Emit
    folders: Sequence[Path]
    _low: set[Path] = field(default_factory=set)
    _done: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def of(cls, storage: str, local_dir: Path, emit: Emit) -> DiskWatch:
        """Of the storage, unless it is an object store, and of Spark's temporary files."""
        local = storage.removeprefix("file://")
        if "://" in local:
            return cls(emit, [local_dir])
        path = Path(local)
        is_same = path.exists() and local_dir.exists() and path.stat().st_dev == local_dir.stat().st_dev
        return cls(emit, [path] if is_same else [path, local_dir])

    def start(self) -> None:
        """Watch from a thread, until `stop`."""
        threading.Thread(target=self._watch, name="disks", daemon=True).start()

    def stop(self) -> None:
        """Watch no more."""
        self._done.set()

    def look(self, usage: Callable[[Path], tuple[int, int, int]] = shutil.disk_usage) -> None:
        """Look at each disk once."""
        for folder in self.folders:
            try:
                total, _, free = usage(folder)
            except OSError:
                # Not there yet, or gone: whoever writes to it says so.
                continue
            if free >= max(_LEAST_FREE_BYTES, _LEAST_FREE_SHARE * total):
                self._low.discard(folder)
            elif folder not in self._low:
                self._low.add(folder)
                self.emit("disk_low", path=str(folder), free_bytes=free, total_bytes=total)

    def _watch(self) -> None:
        while True:
            self.look()
            if self._done.wait(_DISK_SECONDS):
                return


def probe_sources(pipeline: Pipeline, sink_name: str) -> str:
    """Why the first source or target of a sink cannot be reached; '' if all of them can."""
    sink = next(sink for sink in pipeline.sinks if sink.name == sink_name)
    read = [pipeline.streams[name] for name in pipeline.upstream(sink.reads)]
    ends: list[tuple[str, object]] = [
        *((f"source {node.name!r}", node.connector) for node in read if isinstance(node, Source)),
        *((f"target {target.name!r}", target.connector) for target in sink.targets),
    ]
    for what, connector in ends:
        try:
            probe(connector, _PROBE_SECONDS, lambda _text: None)
        except PenstockError as error:
            return f"{what}: {error}"
    return ""
