"""Sends updates to all viewers of the page; the event logs are read and each message is encoded once."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from penstock.events import Event, describe, kind_of
from penstock.redaction import redact_values
from penstock.watch.board import Board
from penstock.watch.reducer import PipelineReducer
from penstock.watch.views import VALUES, PipelineView

REFRESH_SECONDS = 0.5
_MAX_QUEUED = 64
_MAX_EVENTS = 200
_OVERVIEW_FIELDS = ("name", "state", "since", "restarts", "failures", "last_error", "last_error_at", "rows_behind")
_QUERY_FIELDS = (
    "sink",
    "batch",
    "at",
    "idle",
    "input_per_second",
    "processed_per_second",
    "rows_behind",
    "seconds_behind",
)


class TooManyError(Exception):
    """The limit of viewers is reached."""


def message(event: str, data: Any) -> bytes:
    """One server-sent event, encoded."""
    return f"event: {event}\ndata: {json.dumps(redact_values(data), separators=(',', ':'))}\n\n".encode()


@dataclass(eq=False)
class Viewer:
    """A client of the overview, and perhaps of one pipeline."""

    pipeline: str = ""
    queue: asyncio.Queue[bytes | None] = field(default_factory=lambda: asyncio.Queue(_MAX_QUEUED))

    def enqueue(self, messages: Iterable[bytes]) -> bool:
        """Queue messages for the viewer; False if its queue is full."""
        try:
            for data in messages:
                self.queue.put_nowait(data)
        except asyncio.QueueFull:
            return False
        return True


@dataclass
class Live:
    """Refreshes the board while there are viewers, and sends them what has changed."""

    board: Board
    max_viewers: int = 64
    _viewers: set[Viewer] = field(default_factory=set)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _last_overview: bytes = b""
    _marks: dict[str, tuple[int, dict[str, float], bytes]] = field(default_factory=dict)
    _read_at: float = 0.0

    async def run(self) -> None:
        """Refresh and broadcast until cancelled."""
        while True:
            if self._viewers:
                async with self._lock:
                    await asyncio.to_thread(self.board.refresh)
                    self._broadcast()
            await asyncio.sleep(REFRESH_SECONDS)

    @asynccontextmanager
    async def subscribe(self, pipeline: str) -> AsyncIterator[Viewer]:
        """A viewer that gets the whole state first, and then changes."""
        if self.is_full:
            raise TooManyError
        viewer = Viewer(pipeline)
        async with self._lock:
            await asyncio.to_thread(self.board.refresh)
            viewer.enqueue([message("overview", self.overview()), *self._full_state(pipeline)])
            self._viewers.add(viewer)
        try:
            yield viewer
        finally:
            self._viewers.discard(viewer)

    @property
    def is_full(self) -> bool:
        """Whether the limit of viewers is reached."""
        return len(self._viewers) >= self.max_viewers

    async def views(self) -> list[PipelineView]:
        """Every pipeline now, refreshed at most twice a second."""
        async with self._lock:
            if time.monotonic() - self._read_at >= REFRESH_SECONDS:
                await asyncio.to_thread(self.board.refresh)
                self._read_at = time.monotonic()
            return self.board.views()

    def overview(self) -> list[dict[str, Any]]:
        """The summary of every pipeline."""
        return [_summarize(view) for view in self.board.views()]

    def _broadcast(self) -> None:
        overview = message("overview", self.overview())
        changed = [overview] if overview != self._last_overview else []
        self._last_overview = overview
        changes = {name: list(self._changes(name)) for name in {viewer.pipeline for viewer in self._viewers} if name}
        for viewer in list(self._viewers):
            if not viewer.enqueue([*changed, *changes.get(viewer.pipeline, [])]):
                # Too slow: its browser reconnects and gets the full state.
                self._viewers.discard(viewer)
                viewer.queue.get_nowait()
                viewer.queue.put_nowait(None)

    def _full_state(self, name: str) -> Iterable[bytes]:
        reducer, view = self.board.reducer(name), self.board.view(name)
        if reducer is None or view is None:
            return [message("unknown", name)] if name else []
        points = {query.sink: [point.as_list() for point in reducer.series(query.sink)] for query in view.queries}
        if name not in self._marks:
            self._mark(reducer, view)
        return [
            message("series", {"values": VALUES, "points": points}),
            message("events", [_event(event) for event in list(reducer.events)[-_MAX_EVENTS:]]),
            message("view", view.as_dict()),
        ]

    def _changes(self, name: str) -> Iterable[bytes]:
        reducer, view = self.board.reducer(name), self.board.view(name)
        if reducer is None or view is None:
            return
        seen, times, before = self._marks.get(name, (0, {}, b""))
        if reducer.changes != seen:
            points = {
                query.sink: [
                    point.as_list() for point in reducer.series(query.sink) if point.at > times.get(query.sink, 0)
                ]
                for query in view.queries
            }
            if any(points.values()):
                yield message("points", points)
            yield message("events", [_event(event) for event in list(reducer.events)[-_MAX_EVENTS:]])
        self._mark(reducer, view)
        if self._marks[name][2] != before:
            yield self._marks[name][2]

    def _mark(self, reducer: PipelineReducer, view: PipelineView) -> None:
        times = {query.sink: series[-1].at for query in view.queries if (series := reducer.series(query.sink))}
        self._marks[reducer.name] = (reducer.changes, times, message("view", view.as_dict()))


def _summarize(view: PipelineView) -> dict[str, Any]:
    whole = view.as_dict()
    queries = [{key: query[key] for key in _QUERY_FIELDS} for query in whole["queries"]]
    return {**{key: whole[key] for key in _OVERVIEW_FIELDS}, "queries": queries}


def _event(event: Event) -> dict[str, str]:
    kind = kind_of(event)
    return {"at": str(event["at"]), "what": kind.name, "level": kind.level, "sentence": describe(event)}
