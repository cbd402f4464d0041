"""One reader of the event logs for all viewers; each message is written once, however many look."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from penstock.redaction import redacted
from penstock.watch.board import Board
from penstock.watch.reducer import PipelineReducer
from penstock.watch.series import VALUES
from penstock.watch.status import told
from penstock.watch.views import PipelineView

LOOK_SECONDS = 0.5
_WAITING = 64
_EVENTS = 200
_OVERVIEW = ("name", "state", "since", "restarts", "failures", "last_error", "last_error_at", "rows_behind")
_OF_QUERY = ("sink", "batch", "at", "idle", "input_per_second", "processed_per_second", "rows_behind", "seconds_behind")


class TooManyError(Exception):
    """There are as many viewers as we serve."""


def message(event: str, data: Any) -> bytes:
    """One server-sent event."""
    return f"event: {event}\ndata: {json.dumps(redacted(data), separators=(',', ':'))}\n\n".encode()


@dataclass(eq=False)
class Viewer:
    """Someone who looks: at the overview, and perhaps at one pipeline."""

    pipeline: str = ""
    waiting: asyncio.Queue[bytes | None] = field(default_factory=lambda: asyncio.Queue(_WAITING))

    def hand(self, messages: Iterable[bytes]) -> bool:
        """Put messages into the queue; False when the viewer does not keep up."""
        try:
            for each in messages:
                self.waiting.put_nowait(each)
        except asyncio.QueueFull:
            return False
        return True


@dataclass
class Live:
    """Reads while someone looks, and hands out what is new."""

    board: Board
    most_viewers: int = 64
    _viewers: set[Viewer] = field(default_factory=set)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _said: bytes = b""
    _marks: dict[str, tuple[int, dict[str, float], bytes]] = field(default_factory=dict)
    _read_at: float = 0.0

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            if self._viewers:
                async with self._lock:
                    await asyncio.to_thread(self.board.refresh)
                    self._tell()
            await asyncio.sleep(LOOK_SECONDS)

    @asynccontextmanager
    async def viewing(self, pipeline: str) -> AsyncIterator[Viewer]:
        """A viewer who gets everything there is at first, and then what is new."""
        if self.is_full:
            raise TooManyError
        viewer = Viewer(pipeline)
        async with self._lock:
            await asyncio.to_thread(self.board.refresh)
            viewer.hand([message("overview", self.overview()), *self._whole(pipeline)])
            self._viewers.add(viewer)
        try:
            yield viewer
        finally:
            self._viewers.discard(viewer)

    @property
    def is_full(self) -> bool:
        """Whether there are as many viewers as we serve."""
        return len(self._viewers) >= self.most_viewers

    async def views(self) -> list[PipelineView]:
        """Every pipeline now; read again if the last reading is not of just now."""
        async with self._lock:
            if time.monotonic() - self._read_at >= LOOK_SECONDS:
                await asyncio.to_thread(self.board.refresh)
                self._read_at = time.monotonic()
            return self.board.views()

    def overview(self) -> list[dict[str, Any]]:
        """Every pipeline in short."""
        return [_short(view) for view in self.board.views()]

    def _tell(self) -> None:
        said = message("overview", self.overview())
        changed = [said] if said != self._said else []
        self._said = said
        news = {name: list(self._news(name)) for name in {viewer.pipeline for viewer in self._viewers} if name}
        for viewer in list(self._viewers):
            if not viewer.hand([*changed, *news.get(viewer.pipeline, [])]):
                # The browser comes back by itself, and gets everything anew.
                self._viewers.discard(viewer)
                viewer.waiting.get_nowait()
                viewer.waiting.put_nowait(None)

    def _whole(self, name: str) -> Iterable[bytes]:
        watch, view = self.board.watch(name), self.board.view(name)
        if watch is None or view is None:
            return [message("unknown", name)] if name else []
        points = {query.sink: [point.as_list() for point in watch.series(query.sink)] for query in view.queries}
        if name not in self._marks:
            self._mark(watch, view)
        return [
            message("series", {"values": VALUES, "points": points}),
            message("events", [_event(event) for event in list(watch.events)[-_EVENTS:]]),
            message("view", view.as_dict()),
        ]

    def _news(self, name: str) -> Iterable[bytes]:
        watch, view = self.board.watch(name), self.board.view(name)
        if watch is None or view is None:
            return
        changes, times, before = self._marks.get(name, (0, {}, b""))
        if watch.changes != changes:
            points = {
                query.sink: [
                    point.as_list() for point in watch.series(query.sink) if point.at > times.get(query.sink, 0)
                ]
                for query in view.queries
            }
            if any(points.values()):
                yield message("points", points)
            yield message("events", [_event(event) for event in list(watch.events)[-_EVENTS:]])
        self._mark(watch, view)
        if self._marks[name][2] != before:
            yield self._marks[name][2]

    def _mark(self, watch: PipelineReducer, view: PipelineView) -> None:
        times = {query.sink: series[-1].at for query in view.queries if (series := watch.series(query.sink))}
        self._marks[watch.name] = (watch.changes, times, message("view", view.as_dict()))


def _short(view: PipelineView) -> dict[str, Any]:
    whole = view.as_dict()
    queries = [{key: query[key] for key in _OF_QUERY} for query in whole["queries"]]
    return {**{key: whole[key] for key in _OVERVIEW}, "queries": queries}


def _event(event: dict[str, Any]) -> dict[str, str]:
    return {"at": str(event["at"]), "what": str(event["what"]), "says": told(event)}
