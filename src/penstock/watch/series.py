"""A query over time: one point per batch, with older points thinned out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from penstock.watch.snapshot import PHASES
from penstock.watch.views import QueryView

_MAX_POINTS = 1440


@dataclass(frozen=True)
class Point:
    """One batch, as charts need it."""

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
        """The last batch of a view."""
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
        """Its values in the order of `VALUES`; the page holds many points, so their names are sent once."""
        return [*(getattr(self, name) for name in _PLAIN), *self.phases]


_PLAIN = tuple(name for name in Point.__dataclass_fields__ if name != "phases")

#: The names of the values of `Point.as_list`.
VALUES = (*_PLAIN, *PHASES)


@dataclass
class Series:
    """Points in order of time; when there are too many, every second one of the older half is dropped."""

    points: list[Point] = field(default_factory=list)

    def add(self, point: Point) -> None:
        """Add the newest point."""
        self.points.append(point)
        if len(self.points) > _MAX_POINTS:
            del self.points[1 : _MAX_POINTS // 2 : 2]
