"""The state of a pipeline and of its queries at one moment, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from penstock.events import State
from penstock.watch.snapshot import PHASES

#: A query without a progress report for this long is idle: the rates of its last batch do not count any more.
IDLE_SECONDS = 15.0


@dataclass(frozen=True)
class QueryView:
    """One sink's query."""

    sink: str
    promise: str = ""
    batch: int | None = None
    at: float = 0.0
    """Time of its last progress report, in seconds since 1970."""
    idle: bool = False
    stalled_since: float = 0.0
    """When the batch began that takes much longer than usual; 0 if none does."""
    stalled_reason: str = ""
    input_per_second: float = 0.0
    processed_per_second: float = 0.0
    output_per_second: float | None = None
    seconds: float = 0.0
    phases: Mapping[str, float] = field(default_factory=dict)
    behind: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Rows behind by source and partition, for the sources that report offsets."""
    seconds_behind: float | None = None
    watermark: str = ""
    watermark_delay_seconds: float | None = None
    oldest_window_ends: str = ""
    state_rows: int = 0
    state_memory_bytes: int = 0
    state_disk_bytes: int = 0
    batches: int = 0
    rows_in: int = 0
    rows_in_by_source: Mapping[str, int] = field(default_factory=dict)
    input_per_second_by_source: Mapping[str, float] = field(default_factory=dict)
    rows_out: int | None = None
    late_rows: int = 0
    bad_records: Mapping[str, int] = field(default_factory=dict)
    missed_rows: int = 0
    restarts: int = 0
    last_error: str = ""

    @property
    def rows_behind(self) -> int | None:
        """Total rows behind; None if no source reports offsets."""
        if not self.behind:
            return None
        return sum(rows for partitions in self.behind.values() for rows in partitions.values())

    def at_time(self, now: float) -> QueryView:
        """The view at a later time: without a recent progress report it is idle."""
        if not self.at or now - self.at <= max(IDLE_SECONDS, 3 * self.seconds):
            return self
        zero_rates = dict.fromkeys(self.input_per_second_by_source, 0.0)
        out = None if self.output_per_second is None else 0.0
        return replace(
            self,
            idle=True,
            input_per_second=0.0,
            processed_per_second=0.0,
            output_per_second=out,
            input_per_second_by_source=zero_rates,
        )

    def as_dict(self) -> dict[str, Any]:
        """As values for JSON."""
        return {**asdict(self), "rows_behind": self.rows_behind}


@dataclass(frozen=True)
class PipelineView:
    """A pipeline and its queries."""

    name: str
    state: State = "new"
    since: float = 0.0
    queries: tuple[QueryView, ...] = ()
    starts: int = 0
    restarts: int = 0
    failures: int = 0
    last_error: str = ""
    last_error_at: float = 0.0
    file: str = ""
    nodes: tuple[Mapping[str, Any], ...] = ()
    broken_lines: int = 0

    @property
    def rows_behind(self) -> int | None:
        """Rows behind, summed over the queries; None if none knows."""
        known = [query.rows_behind for query in self.queries if query.rows_behind is not None]
        return sum(known) if known else None

    @property
    def is_up(self) -> bool:
        """Whether its queries run."""
        return self.state in ("running", "draining")

    def as_dict(self) -> dict[str, Any]:
        """As values for JSON."""
        queries = [query.as_dict() for query in self.queries]
        return {**asdict(self), "queries": queries, "rows_behind": self.rows_behind}


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
