"""Spark's words for a batch to ours; nothing drawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_BAD = "bad_records:"

#: Observed metrics that begin so carry late rows of an aggregation.
LATE = "late_rows:"
#: Observed metrics that begin so carry the rows of a source that several branches of the query read.
ROWS_IN = "rows_in:"


@dataclass(frozen=True)
class Snapshot:
    """What one query did in one batch."""

    query: str
    batch: int
    at: str
    rows_in: int
    """Rows of the sources, each once, however many branches of the query read it."""
    rows_per_second: float
    seconds: float
    watermark: str = ""
    rows_out: int | None = None
    state_rows: int = 0
    state_bytes: int = 0
    late_rows: int = 0
    bad_records: Mapping[str, int] = field(default_factory=dict)

    @property
    def bad(self) -> int:
        """Bad records of every source in this batch."""
        return sum(self.bad_records.values())


def snapshot(progress: Mapping[str, Any]) -> Snapshot:
    """The facts of a progress report of Spark."""
    milliseconds = progress.get("durationMs", {}).get("triggerExecution", 0)
    rows_in = sum(rows_by_source(progress).values()) or _reported_rows(progress)
    written = progress.get("sink", {}).get("numOutputRows", -1)
    return Snapshot(
        query=progress.get("name") or "",
        batch=progress["batchId"],
        at=progress.get("timestamp", ""),
        rows_in=rows_in,
        rows_per_second=rows_in * 1000 / milliseconds if milliseconds else 0.0,
        seconds=milliseconds / 1000,
        watermark=_watermark(progress),
        rows_out=written if written >= 0 else None,
        state_rows=sum(operator.get("numRowsTotal", 0) for operator in progress.get("stateOperators", [])),
        state_bytes=sum(operator.get("memoryUsedBytes", 0) for operator in progress.get("stateOperators", [])),
        late_rows=_late_rows(progress),
        bad_records=_bad_records(progress),
    )


def _watermark(progress: Mapping[str, Any]) -> str:
    found = str(progress.get("eventTime", {}).get("watermark", ""))
    # Spark begins at the epoch, before any row: that is no watermark yet.
    return "" if found.startswith("1970-01-01") else found


def _bad_records(progress: Mapping[str, Any]) -> dict[str, int]:
    metrics = progress.get("observedMetrics", {}) or {}
    found = {name.removeprefix(_BAD): row for name, row in metrics.items() if name.startswith(_BAD)}
    return {name: int(row.get("bad", 0)) for name, row in found.items() if row}


def rows_by_source(progress: Mapping[str, Any]) -> dict[str, int]:
    """Rows of each source, where a query counts them itself because it reads one several times."""
    metrics = progress.get("observedMetrics", {}) or {}
    return {
        name.removeprefix(ROWS_IN): int(row.get("rows", 0))
        for name, row in metrics.items()
        if name.startswith(ROWS_IN) and row
    }


def read_share(progress: Mapping[str, Any]) -> float:
    """The part of Spark's rows in that is left when each source counts once."""
    reported = _reported_rows(progress)
    return (sum(rows_by_source(progress).values()) or reported) / reported if reported else 1.0


def _reported_rows(progress: Mapping[str, Any]) -> int:
    return sum(source.get("numInputRows", 0) for source in progress.get("sources", []))


def _late_rows(progress: Mapping[str, Any]) -> int:
    """Late rows, each once: of aggregations that read the same watermark, the largest count."""
    metrics = progress.get("observedMetrics", {}) or {}
    counted = {name: row for name, row in metrics.items() if name.startswith(LATE) and row}
    # Spark's own counter of an aggregation is too low; those of other operators are exact.
    dropped = [
        int(operator.get("numRowsDroppedByWatermark", 0))
        for operator in progress.get("stateOperators", [])
        if not counted or "statestoresave" not in str(operator.get("operatorName", "")).lower()
    ]
    groups: dict[Any, int] = {}
    for name, row in counted.items():
        group = row.get("group", name)
        groups[group] = max(groups.get(group, 0), int(row.get("late", 0)))
    if 0 in groups:
        # Every operator reads the same watermark, so the same late row is in the count of each.
        return max(groups[0], *dropped) if dropped else groups[0]
    return sum(dropped) + sum(groups.values())
