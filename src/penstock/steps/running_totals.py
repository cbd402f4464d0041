"""The stateful processor behind running totals; it runs in Spark's Python workers."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any, NamedTuple

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import ArrayType, StructField, StructType


class TotalOf(NamedTuple):
    """One running total: its name, its function and its column."""

    name: str
    function: str
    column: str

    def add_row(self, before: Any, row: Row) -> Any:
        """The total with one more row; nulls are ignored."""
        if self.function == "count":
            return (before or 0) + (self.column == "*" or row[self.column] is not None)
        value = row[self.column]
        if value is None or before is None:
            return before if value is None else value
        if self.function == "sum":
            return before + value
        return min(before, value) if self.function == "min" else max(before, value)


class RunningTotals(StatefulProcessor):
    """Keeps rows until the watermark has reached their time, then gives them in that order with their totals."""

    def __init__(
        self, schema: StructType, keys: list[str], order_by: str, totals: tuple[TotalOf, ...], state: StructType
    ) -> None:
        self._schema, self._keys, self._order_by, self._totals, self._state = schema, keys, order_by, totals, state

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Waiting rows by their time, and the totals so far."""
        self._handle = handle
        rows = StructType([StructField("rows", ArrayType(self._schema))])
        self._waiting = handle.getMapState("waiting", "time bigint", rows)
        self._so_far = handle.getValueState("so_far", self._state)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: ARG002, N802, N803
        """Store the rows until the watermark has reached them."""
        arrived: dict[int, list[Row]] = {}
        for row in rows:
            arrived.setdefault(_milliseconds(row[self._order_by]), []).append(row)
        for time, new in arrived.items():
            kept = (self._waiting.getValue((time,)) or ([],))[0]
            self._waiting.updateValue((time,), ([*kept, *new],))
            self._handle.registerTimer(time)
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: ARG002, N802, N803
        """The rows of one time, with totals over them and all before."""
        time = (expiredTimerInfo.getExpiryTimeInMs(),)
        rows = (self._waiting.getValue(time) or ([],))[0]
        self._waiting.removeKey(time)
        before = self._so_far.get() if self._so_far.exists() else None
        totals = [before[number] if before is not None else None for number in range(len(self._totals))]
        for row in rows:
            totals = [total.add_row(so_far, row) for total, so_far in zip(self._totals, totals, strict=True)]
        self._so_far.update(tuple(totals))
        names = self._schema.names
        for row in rows:
            yield Row(
                **{name: row[name] for name in names}, **{t.name: v for t, v in zip(self._totals, totals, strict=True)}
            )


def _milliseconds(moment: datetime) -> int:
    # Workers pass timestamps without a zone, in the local one of this process.
    return int(moment.astimezone(timezone.utc).timestamp() * 1000)
