"""A query over time, thinned as it grows old."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from penstock.watch.phases import PHASES
from penstock.watch.views import QueryView

_MOST_POINTS = 1440


@dataclass(frozen=True)
class Point:
    """One batch as a chart needs it."""

    at: float
    input_per_second: float
    processed_per_second: float
    seconds: float
    phases: tuple[float, ...]
    rows_behind: int | None
    seconds_behind: float | None
    state_rows: int
    state_bytes: int
    watermark_delay_seconds: float | None
    late_rows: int
    bad_records: int

    @classmethod
    def of(cls, view: QueryView, late_rows: int, bad_records: int) -> Point:
        """The point of a view's last batch."""
        return cls(
            at=round(view.at, 3),
            input_per_second=view.input_per_second,
            processed_per_second=view.processed_per_second,
            seconds=view.seconds,
            phases=tuple(view.phases.get(name, 0.0) for name in PHASES),
            rows_behind=view.rows_behind,
            seconds_behind=view.seconds_behind,
            state_rows=view.state_rows,
            state_bytes=view.state_memory_bytes,
            watermark_delay_seconds=view.watermark_delay_seconds,
            late_rows=late_rows,
            bad_records=bad_records,
        )

    def as_list(self) -> list[Any]:
        """Its values in the order of `COLUMNS`, for a page that holds many of them."""
        return [getattr(self, name) for name in COLUMNS if name != "phases"] + list(self.phases)


COLUMNS = tuple(Point.__dataclass_fields__)

#: The names of the values of `Point.as_list`.
VALUES = (*(name for name in COLUMNS if name != "phases"), *PHASES)


@dataclass
class Series:
    """Points in the order of time; of the older half every second one is left out when there are too many."""

    points: list[Point] = field(default_factory=list)

    def add(self, point: Point) -> None:
        """The newest point."""
        self.points.append(point)
        if len(self.points) > _MOST_POINTS:
            del self.points[1 : _MOST_POINTS // 2 : 2]
