"""A query that stays in one batch for much longer than usual: said once, with the reason, and once when it is over."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import PenstockError
from penstock.model import Pipeline, Source

_LEAST_SECONDS = 15.0
_FIRST_BATCH_SECONDS = 60.0
_TIMES = 3.0
_PROBE_SECONDS = 1.0


@dataclass
class Stalls:
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
