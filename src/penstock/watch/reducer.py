"""Builds the view of a pipeline from its events, one event at a time."""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.events import Event, State, epoch_seconds, kind_of
from penstock.storage.layout import named_sources
from penstock.watch.snapshot import DAMAGE, phases, read_share, rows_by_source, snapshot
from penstock.watch.views import PipelineView, Point, QueryView, Series

_MAX_EVENTS = 500
#: The states in which a process of the pipeline must be running.
_ACTIVE: tuple[State, ...] = ("starting", "running", "draining", "restarting")
#: Events of every shutdown; after a failure they do not change the state.
_SHUTDOWN = ("stopped", "lease_released", "driver_ended")


@dataclass(frozen=True)
class Process:
    """The supervisor, as its events name it."""

    host: str
    pid: int
    at: float
    """When the event was written."""
    identity: str = ""
    """`processes.identity`; empty in logs of release 0.1."""


Alive = Callable[[Process], bool]


@dataclass
class _Query:
    view: QueryView
    series: Series = field(default_factory=Series)
    behind: dict[str, TimeBehind] = field(default_factory=dict)


@dataclass
class PipelineReducer:
    """Everything known about one pipeline from its events so far."""

    name: str
    manifest: Mapping[str, Any] = field(default_factory=dict)
    events: deque[Event] = field(default_factory=lambda: deque(maxlen=_MAX_EVENTS))
    """The events other than batches, the newest last."""
    changes: int = 0
    """Grows with every event, so that a viewer notices new ones."""
    damaged: int = 0
    """Events that could not be applied, because facts are missing or have the wrong type."""
    _view: PipelineView = field(init=False)
    _queries: dict[str, _Query] = field(default_factory=dict)
    _process: Process | None = None

    def __post_init__(self) -> None:
        self._view = PipelineView(self.name)

    def apply(self, event: Event) -> None:
        """Apply one more event; a damaged one is counted and otherwise ignored."""
        self.changes += 1
        is_batch = event["what"] == "batch"
        if not is_batch:
            self.events.append(event)
        try:
            (self._apply_batch if is_batch else self._apply_event)(event)
        except DAMAGE:
            self.damaged += 1

    def view(self, now: float, alive: Alive = lambda _process: True) -> PipelineView:
        """The pipeline at this time."""
        nodes = self._nodes
        state = self._view.state
        if state in _ACTIVE and self._process is not None and not alive(self._process):
            state = "gone"
        names = [node["name"] for node in nodes if node["role"] == "sink"]
        order = [*names, *(name for name in self._queries if name not in names)]
        up = state in ("running", "draining")
        views = [self._query(name).view.at_time(now if up else float("inf")) for name in order]
        stalled = [query.stalled_since for query in views if query.stalled_since] if state == "running" else []
        return replace(
            self._view,
            state="stalled" if stalled else state,
            since=min(stalled) if stalled else self._view.since,
            queries=tuple(replace(query, promise=self._promise(query.sink)) for query in views),
            file=str(self.manifest.get("file", "")),
            nodes=tuple(nodes),
        )

    def series(self, sink: str) -> list[Point]:
        """The points of one query over time."""
        return self._queries[sink].series.points if sink in self._queries else []

    @property
    def _nodes(self) -> list[dict[str, Any]]:
        nodes = self.manifest.get("nodes", [])
        return [node for node in nodes if isinstance(node, dict) and {"name", "role"} <= node.keys()]

    def _query(self, sink: str) -> _Query:
        return self._queries.setdefault(sink, _Query(QueryView(sink)))

    def _promise(self, sink: str) -> str:
        node = next((node for node in self._nodes if node["role"] == "sink" and node["name"] == sink), {})
        return "; ".join(f"{each['name']}: {each['promise']}" for each in node.get("targets", []))

    def _apply_event(self, event: Event) -> None:
        kind, at = kind_of(event), epoch_seconds(event["at"])
        what, view = kind.name, self._view
        if kind.state and not (what in _SHUTDOWN and view.state == "failed"):
            view = replace(view, state=kind.state, since=at)
        error = str(event.get("reason", "")) if kind.level == "error" else ""
        if error:
            view = replace(view, last_error=error, last_error_at=at)
        self._view = replace(
            view,
            starts=view.starts + (what == "started"),
            restarts=view.restarts + (what == "restarting"),
            failures=view.failures + (what in ("failed", "query_restarting")),
        )
        if "pid" in event and "host" in event:
            self._process = Process(str(event["host"]), int(event["pid"]), at)
        if self._process is not None and "supervisor" in event:
            self._process = replace(self._process, identity=str(event["supervisor"]))
        self._apply_to_query(what, event)

    def _apply_to_query(self, what: str, event: Event) -> None:
        if what == "missed":
            query = self._query(str(event.get("sink")))
            query.view = replace(query.view, missed_rows=query.view.missed_rows + int(event.get("rows", 0)))
        if what == "stalled":
            since = epoch_seconds(event["at"]) - _finite(event.get("seconds", 0))
            self._mark_stall(str(event.get("sink")), since, str(event.get("reason", "")))
        if what == "resumed":
            self._mark_stall(str(event.get("sink")))
        if what == "started":
            for sink in list(self._queries):
                self._mark_stall(sink)
        if what == "query_restarting":
            query = self._query(str(event.get("sink")))
            reason = str(event.get("reason", ""))
            query.view = replace(query.view, restarts=query.view.restarts + 1, last_error=reason)

    def _mark_stall(self, sink: str, since: float = 0.0, reason: str = "") -> None:
        query = self._query(sink)
        query.view = replace(query.view, stalled_since=since, stalled_reason=reason)

    def _apply_batch(self, event: Event) -> None:
        progress: Mapping[str, Any] = event.get("progress") or {}
        if "batchId" not in progress:
            return
        seen = snapshot(progress)
        query = self._query(seen.query)
        at = epoch_seconds(event["at"])
        sources = progress.get("sources") or []
        names = named_sources(self._nodes, seen.query, [str(each.get("description", "")) for each in sources])
        view = _with_batch(query.view, progress, at, dict(zip(names, sources, strict=True)))
        windows = event.get("oldest_window_ends") or {}
        behind = [
            seconds
            for name, source in zip(names, sources, strict=True)
            if (seconds := query.behind.setdefault(name, TimeBehind()).seconds(source, at)) is not None
        ]
        # Only now: a damaged event must not leave half a view.
        query.view = replace(
            view,
            seconds_behind=max(behind) if behind else None,
            oldest_window_ends=min(map(str, windows.values())) if windows else "",
        )
        query.series.add(Point.of(query.view, seen.late_rows, seen.bad))


def _finite(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{value!r} is no number")
    return number


def _with_batch(view: QueryView, progress: Mapping[str, Any], at: float, sources: Mapping[str, Any]) -> QueryView:
    seen = snapshot(progress)
    watermark = epoch_seconds(seen.watermark)
    share = read_share(progress)
    rows = rows_by_source(progress) or {name: each.get("numInputRows", 0) for name, each in sources.items()}
    behind = {name: partitions for name, source in sources.items() if (partitions := rows_behind(source)) is not None}
    return replace(
        view,
        batch=seen.batch,
        at=at,
        stalled_since=0.0,
        stalled_reason="",
        input_per_second=_rate(progress.get("inputRowsPerSecond"), share),
        processed_per_second=_rate(progress.get("processedRowsPerSecond"), share),
        output_per_second=_output_rate(seen.rows_out, seen.seconds),
        seconds=seen.seconds,
        phases=phases(progress),
        behind=behind,
        watermark=seen.watermark,
        watermark_delay_seconds=round(at - watermark, 3) if watermark else None,
        state_rows=seen.state_rows,
        state_memory_bytes=seen.state_bytes,
        state_disk_bytes=_disk_bytes(progress),
        batches=view.batches + (seen.rows_in > 0),
        rows_in=view.rows_in + seen.rows_in,
        rows_in_by_source=_sum(view.rows_in_by_source, rows),
        input_per_second_by_source={
            name: _rate(each.get("inputRowsPerSecond"), share) for name, each in sources.items()
        },
        rows_out=view.rows_out if seen.rows_out is None else (view.rows_out or 0) + seen.rows_out,
        late_rows=view.late_rows + seen.late_rows,
        bad_records=_sum(view.bad_records, seen.bad_records),
    )


def _rate(value: Any, share: float = 1.0) -> float:
    # Spark reports NaN or Infinity for the first batch of a query, in JSON as text or not at all.
    try:
        rate = float(value) * share
    except (TypeError, ValueError):
        return 0.0
    return round(rate, 3) if 0 <= rate < float("inf") else 0.0


def _output_rate(rows: int | None, seconds: float) -> float | None:
    return None if rows is None else round(rows / seconds, 3) if seconds else 0.0


def _disk_bytes(progress: Mapping[str, Any]) -> int:
    operators = progress.get("stateOperators") or []
    return sum(int((each.get("customMetrics") or {}).get("rocksdbSstFileSize", 0)) for each in operators)


def _sum(before: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    return {name: before.get(name, 0) + more.get(name, 0) for name in [*before, *(n for n in more if n not in before)]}


_MAX_POINTS = 512

Partitions = dict[str, int]
"""Offsets or rows by `topic/partition`."""


def parse_offsets(given: Any) -> Partitions | None:
    """Offsets by partition as Kafka's source reports them; None for anything else."""
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError:
            return None
    if not isinstance(given, Mapping) or not given:
        return None
    by_partition: Partitions = {}
    for topic, partitions in given.items():
        if not isinstance(partitions, Mapping):
            return None
        for partition, offset in partitions.items():
            if not isinstance(offset, int):
                return None
            by_partition[f"{topic}/{partition}"] = offset
    return by_partition


def rows_behind(source: Mapping[str, Any]) -> Partitions | None:
    """Rows of each partition that were not read when the batch was planned; None if the source reports no offsets."""
    latest, end = parse_offsets(source.get("latestOffset")), parse_offsets(source.get("endOffset"))
    if latest is None or end is None:
        return None
    return {name: max(0, newest - end.get(name, 0)) for name, newest in latest.items()}


@dataclass
class TimeBehind:
    """How far a query is behind in time, from the latest offset of each partition over time.

    latest     100 ──── 200 ──── 300        a query that has read 150 at 10:03 is where
    at         10:01    10:02    10:03      the topic was at 10:01:30: 90 seconds behind
    """

    _points: dict[str, list[tuple[int, float]]] = field(default_factory=dict)

    def seconds(self, source: Mapping[str, Any], at: float) -> float | None:
        """How long ago the last row read was the newest of its partition; of the partition furthest behind."""
        latest, end = parse_offsets(source.get("latestOffset")), parse_offsets(source.get("endOffset"))
        if latest is None or end is None:
            return None
        behind = 0.0
        for name, newest in latest.items():
            points = self._add_point(name, newest, at)
            if end.get(name, 0) < newest:
                behind = max(behind, at - _time_of_offset(points, end.get(name, 0)))
        return behind

    def _add_point(self, name: str, newest: int, at: float) -> list[tuple[int, float]]:
        points = self._points.setdefault(name, [])
        if points and newest < points[-1][0]:
            # The topic was recreated.
            points.clear()
        if not points or newest > points[-1][0]:
            points.append((newest, at))
        else:
            points[-1] = (newest, points[-1][1])
        if len(points) > _MAX_POINTS:
            del points[1:-1:2]
        return points


def _time_of_offset(points: list[tuple[int, float]], offset: int) -> float:
    """When a partition ended at this offset; before the first point, the time of that point is an upper bound."""
    index = bisect_right(points, (offset, float("inf")))
    if index == 0:
        return points[0][1]
    if index == len(points):
        return points[-1][1]
    (before, early), (after, late) = points[index - 1], points[index]
    return early + (late - early) * (offset - before) / (after - before)
