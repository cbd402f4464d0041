"""What the driver watches besides its queries: the clock, the identities of topics, and batches that stall."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import PenstockError, RunError, UnreachableError
from penstock.model import Pipeline, Source

_NOTICED_SECONDS = 2.0


def _ahead() -> float:
    """How far the clock is ahead of one that nobody can set."""
    return time.time() - time.monotonic()


@dataclass
class ClockWatch:
    """Looked at again and again."""

    _ahead: float = field(default_factory=_ahead)

    def set_back(self) -> float:
        """By how many seconds it was set back since the last look; 0 if it was not."""
        before, self._ahead = self._ahead, _ahead()
        back = before - self._ahead
        return back if back > _NOTICED_SECONDS else 0.0


_LOOK_SECONDS = 10.0


@dataclass
class TopicWatch:
    """Asks the sources now and then what they read; `changed` is why the pipeline cannot go on."""

    pipeline: Pipeline
    wake: Callable[[], None]
    changed: RunError | None = None
    _known: dict[str, dict[str, str]] = field(default_factory=dict)
    _done: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        """Look from a thread, until `stop`."""
        self._known = {source.name: ids for source in self.pipeline.sources if (ids := source.connector.identity())}
        if self._known:
            threading.Thread(target=self._watch, name="identities", daemon=True).start()

    def stop(self) -> None:
        """Look no more."""
        self._done.set()

    def _watch(self) -> None:
        while not self._done.wait(_LOOK_SECONDS) and self.changed is None:
            for source in self.pipeline.sources:
                self._look(source)

    def _look(self, source: Source) -> None:
        known = self._known.get(source.name, {})
        try:
            now = source.connector.identity() if known else {}
        except UnreachableError:
            # A broker that is away is for the queries to notice; they wait for it longer than we would.
            return
        other = [name for name in known if name in now and now[name] != known[name]]
        if other:
            says = f"{', '.join(other)} was deleted and made again while it was read"
            fix = "'on_data_loss: earliest' reads it from its beginning, 'skip' from its end"
            may = getattr(source.connector, "on_data_loss", "fail") != "fail"
            self.changed = RunError(f"{source.at}: source {source.name!r}: {says}; {fix}", retry=may)
            self.wake()


_LEAST_SECONDS = 15.0
_FIRST_BATCH_SECONDS = 60.0
_TIMES = 3.0
_PROBE_SECONDS = 1.0


@dataclass
class StallWatch:
    """Looks at what every heartbeat says of the queries."""

    tell: Callable[..., None]
    find_reason: Callable[[str], str]
    """Why a sink's query waits, as far as the outside systems tell; '' if they are well. May take seconds."""
    _last_seconds: dict[str, float] = field(default_factory=dict)
    _stalled: dict[str, str] = field(default_factory=dict)

    def batch(self, progress: Mapping[str, Any]) -> None:
        """A batch has ended, and took so long."""
        self._last_seconds[progress["name"]] = progress.get("durationMs", {}).get("triggerExecution", 0) / 1000

    def look(self, queries: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        """The same facts; a query that is stalled has its reason in `stalled`."""
        for sink, facts in queries.items():
            if facts["busy_seconds"] > self._most_seconds(sink):
                if sink not in self._stalled:
                    self._stalled[sink] = facts["says"]
                    # Outside systems are asked, and the heartbeat does not wait for their answers.
                    threading.Thread(target=self.emit, args=(sink, dict(facts)), name="stalls", daemon=True).start()
                facts["stalled"] = self._stalled[sink]
            elif self._stalled.pop(sink, None) is not None:
                self.tell("resumed", sink=sink)
        return queries

    def emit(self, sink: str, facts: Mapping[str, Any]) -> None:
        """Find the reason, and tell it."""
        reason = self.find_reason(sink) or f"Spark says: {facts['says']}"
        if sink in self._stalled:
            self._stalled[sink] = reason
            self.tell("stalled", sink=sink, seconds=facts["busy_seconds"], reason=reason)

    def _most_seconds(self, sink: str) -> float:
        last = self._last_seconds.get(sink)
        return _FIRST_BATCH_SECONDS if last is None else max(_LEAST_SECONDS, _TIMES * last)


def probe(pipeline: Pipeline, sink_name: str) -> str:
    """What the first source or target of a sink says that cannot be reached; '' if all of them can."""
    sink = next(sink for sink in pipeline.sinks if sink.name == sink_name)
    read = [pipeline.streams[name] for name in pipeline.upstream(sink.reads)]
    ends = [(f"source {node.name!r}", node.connector) for node in read if isinstance(node, Source)]
    ends += [(f"target {target.name!r}", target.connector) for target in sink.targets]  # type: ignore[misc]
    for what, connector in ends:
        try:
            connector.preflight(_PROBE_SECONDS, lambda _text: None)
        except PenstockError as error:
            return f"{what}: {error}"
    return ""
