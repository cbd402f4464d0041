"""One batch of a query, from Spark's progress report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

#: Prefix of the observed metrics with the bad records of a source.
_BAD = "bad_records:"
#: Prefix of the observed metrics with the late rows of an aggregation.
LATE = "late_rows:"
#: Prefix of the observed metrics with the rows of a source that several branches of the query read.
ROWS_IN = "rows_in:"

#: What a damaged event raises: facts are missing or have the wrong type.
DAMAGE = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)

#: The phases of a batch, in order.
PHASES = ("planning", "reading", "state", "writing", "commit", "other")


@dataclass(frozen=True)
class Snapshot:
    """What one query did in one batch."""

    query: str
    batch: int
    at: str
    rows_in: int
    """Rows of the sources; a source that several branches of the query read counts once."""
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
    """The facts of one of Spark's progress reports; one of `DAMAGE` if it is none."""
    milliseconds = _count(progress.get("durationMs", {}).get("triggerExecution", 0))
    rows_in = sum(rows_by_source(progress).values()) or _reported_rows(progress)
    written = _count(progress.get("sink", {}).get("numOutputRows", -1))
    return Snapshot(
        query=str(progress.get("name") or ""),
        batch=_count(progress["batchId"]),
        at=str(progress.get("timestamp", "")),
        rows_in=rows_in,
        rows_per_second=rows_in * 1000 / milliseconds if milliseconds else 0.0,
        seconds=milliseconds / 1000,
        watermark=_watermark(progress),
        rows_out=written if written >= 0 else None,
        state_rows=sum(_count(each.get("numRowsTotal", 0)) for each in progress.get("stateOperators", [])),
        state_bytes=sum(_count(each.get("memoryUsedBytes", 0)) for each in progress.get("stateOperators", [])),
        late_rows=_late_rows(progress),
        bad_records=_bad_records(progress),
    )


def snapshot_of(event: Mapping[str, Any]) -> Snapshot | None:
    """The batch of a `batch` event; None for other events and for damaged ones."""
    try:
        return snapshot(event["progress"]) if event["what"] == "batch" else None
    except DAMAGE:
        return None


def _watermark(progress: Mapping[str, Any]) -> str:
    found = str(progress.get("eventTime", {}).get("watermark", ""))
    # Spark reports the epoch until it has a watermark.
    return "" if found.startswith("1970-01-01") else found


def _bad_records(progress: Mapping[str, Any]) -> dict[str, int]:
    metrics = progress.get("observedMetrics", {}) or {}
    found = {name.removeprefix(_BAD): row for name, row in metrics.items() if name.startswith(_BAD)}
    return {name: int(row.get("bad", 0)) for name, row in found.items() if row}


def rows_by_source(progress: Mapping[str, Any]) -> dict[str, int]:
    """Rows of each source, for queries that count them themselves because they read a source several times."""
    metrics = progress.get("observedMetrics", {}) or {}
    return {
        name.removeprefix(ROWS_IN): int(row.get("rows", 0))
        for name, row in metrics.items()
        if name.startswith(ROWS_IN) and row
    }


def read_share(progress: Mapping[str, Any]) -> float:
    """The share of the input rows that Spark reports when each source counts once."""
    reported = _reported_rows(progress)
    return (sum(rows_by_source(progress).values()) or reported) / reported if reported else 1.0


def _reported_rows(progress: Mapping[str, Any]) -> int:
    return sum(_count(source.get("numInputRows", 0)) for source in progress.get("sources", []))


def _count(value: Any) -> int:
    if not isinstance(value, int):
        raise TypeError(f"{value!r} is no count")
    return value


def _late_rows(progress: Mapping[str, Any]) -> int:
    """Late rows, each counted once: the largest count of the aggregations with the same watermark."""
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
        # All operators have the same watermark, so each of them counts the same late row.
        return max(groups[0], *dropped) if dropped else groups[0]
    return sum(dropped) + sum(groups.values())


def phases(progress: Mapping[str, Any]) -> dict[str, float]:
    """Seconds of a batch by phase; their sum is the whole batch.

    Spark reads, computes and writes rows in one step, `addBatch`. Of that, `state` is the time that its operators
    report for state, averaged over tasks, and the rest is `writing`. `reading` is asking the sources for new offsets.
    """
    durations: Mapping[str, int] = progress.get("durationMs") or {}
    whole = durations.get("triggerExecution", 0)
    add_batch = durations.get("addBatch", 0)
    state = min(add_batch, sum(_state_milliseconds(operator) for operator in progress.get("stateOperators") or []))
    by_phase = {
        "planning": durations.get("queryPlanning", 0),
        "reading": durations.get("latestOffset", 0) + durations.get("getBatch", 0) + durations.get("getOffset", 0),
        "state": state,
        "writing": add_batch - state,
        "commit": durations.get("walCommit", 0) + durations.get("commitOffsets", 0) + durations.get("commitBatch", 0),
    }
    by_phase["other"] = max(0, whole - sum(by_phase.values()))
    return {name: float(milliseconds) / 1000 for name, milliseconds in by_phase.items()}


def _state_milliseconds(operator: Mapping[str, Any]) -> float:
    milliseconds = sum(operator.get(key, 0) for key in ("allUpdatesTimeMs", "allRemovalsTimeMs", "commitTimeMs"))
    return float(milliseconds) / max(1, operator.get("numShufflePartitions") or 1)
