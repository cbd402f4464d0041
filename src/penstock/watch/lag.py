"""How far a query is behind what its sources have: in rows by partition, and in time."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_MOST_POINTS = 512

Partitions = dict[str, int]
"""Offsets or rows by `topic/partition`."""


def offsets(given: Any) -> Partitions | None:
    """Offsets as Kafka's source reports them; None for what is none."""
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError:
            return None
    if not isinstance(given, Mapping) or not given:
        return None
    found: Partitions = {}
    for topic, partitions in given.items():
        if not isinstance(partitions, Mapping):
            return None
        for partition, offset in partitions.items():
            if not isinstance(offset, int):
                return None
            found[f"{topic}/{partition}"] = offset
    return found


def rows_behind(source: Mapping[str, Any]) -> Partitions | None:
    """How many rows each partition has beyond what was read, when the batch was planned; None if nobody knows."""
    latest, end = offsets(source.get("latestOffset")), offsets(source.get("endOffset"))
    if latest is None or end is None:
        return None
    return {name: max(0, newest - end.get(name, 0)) for name, newest in latest.items()}


@dataclass
class TimeBehind:
    """When each partition had how much, from the reports so far.

    latest     100 ──── 200 ──── 300        a query that has read 150 at 10:03 is where
    at         10:01    10:02    10:03      the topic was at 10:01:30: 90 seconds behind
    """

    _points: dict[str, list[tuple[int, float]]] = field(default_factory=dict)

    def seconds(self, source: Mapping[str, Any], at: float) -> float | None:
        """How long ago the newest row that was read was the newest there was; the worst of the partitions."""
        latest, end = offsets(source.get("latestOffset")), offsets(source.get("endOffset"))
        if latest is None or end is None:
            return None
        behind = 0.0
        for name, newest in latest.items():
            points = self._seen(name, newest, at)
            if end.get(name, 0) < newest:
                behind = max(behind, at - _when(points, end.get(name, 0)))
        return behind

    def _seen(self, name: str, newest: int, at: float) -> list[tuple[int, float]]:
        points = self._points.setdefault(name, [])
        if points and newest < points[-1][0]:
            # The topic was made anew.
            points.clear()
        if not points or newest > points[-1][0]:
            points.append((newest, at))
        else:
            points[-1] = (newest, points[-1][1])
        if len(points) > _MOST_POINTS:
            del points[1:-1:2]
        return points


def _when(points: list[tuple[int, float]], offset: int) -> float:
    """When a partition had this many rows; for more than is known, the first moment that is: at least so long ago."""
    place = bisect_right(points, (offset, float("inf")))
    if place == 0:
        return points[0][1]
    if place == len(points):
        return points[-1][1]
    (before, early), (after, late) = points[place - 1], points[place]
    return early + (late - early) * (offset - before) / (after - before)
