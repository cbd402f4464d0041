"""Running totals per key in event order: what SQL cannot do on a stream.

A row waits until the watermark has reached its time, because only then no earlier row can arrive:

    arrives    B of 10:05   A of 10:00   C of 10:10
    written    A, B in the order of their times, when the watermark has reached 10:05; C waits
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field, field_validator

from penstock.connector import StepOptions
from penstock.errors import BuildError
from penstock.options import Names, quote
from penstock.text import did_you_mean

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ALL = "_all"
_DELAY = "spark.watermarkDelayMs"
"""Spark's mark on the column of a watermark."""
_TOTAL = re.compile(r"(sum|count|min|max)\((\*|\w+)\)")


class RunningStep(StepOptions):
    """Each row with totals over it and all rows before it, by key and event time; rows of one time are one step."""

    kind: ClassVar[str] = "running"

    source: str = Field(alias="from", description="The stream to read; it has a watermark.")
    by: Names = Field(default=(), description="Columns to group by; without any, one total over all rows.")
    order_by: str = Field(description="The event-time column, the one with the watermark.")
    totals: dict[str, str] = Field(
        min_length=1, description="New columns: {name: sum(column)}; also count(*), min and max."
    )

    @field_validator("totals")
    @classmethod
    def _are_known(cls, totals: dict[str, str]) -> dict[str, str]:
        for name, total in totals.items():
            if not _TOTAL.fullmatch(total):
                raise ValueError(f"{name!r} is {total!r}; write sum(column), min(column), max(column) or count(*)")
        return totals

    @property
    def reads(self) -> tuple[str, ...]:
        """The stream that it reads."""
        return (self.source,)

    @property
    def named_columns(self) -> Iterator[tuple[str, str, Sequence[str]]]:
        """Those to group by, to order by and to total."""
        yield "by", self.source, self.by
        yield "order_by", self.source, [self.order_by]
        yield "totals", self.source, [name for _, name in map(_parse_total, self.totals.values()) if name != "*"]

    def build(self, spark: SparkSession, streams: dict[str, DataFrame]) -> DataFrame:  # noqa: ARG002
        """The rows with their totals, each written once, when the watermark has reached it."""
        from pyspark import cloudpickle
        from pyspark.sql import functions as F  # noqa: N812
        from pyspark.sql.types import LongType, StructField, StructType

        from penstock.steps import running_totals
        from penstock.steps.running_totals import RunningTotals, TotalOf

        # By value, so that executors do not need Penstock installed.
        cloudpickle.register_pickle_by_value(running_totals)  # type: ignore[no-untyped-call]

        rows = streams[self.source]
        _require_time(rows, self.order_by)
        keys = list(self.by)
        if not keys:
            rows, keys = rows.withColumn(_ALL, F.lit(0)), [_ALL]
        totals = tuple(TotalOf(name, *_parse_total(total)) for name, total in self.totals.items())
        added = [
            StructField(total.name, LongType() if total.function == "count" else _total_type(rows, total))
            for total in totals
        ]
        output = StructType([*rows.schema.fields, *added])
        result = rows.groupBy(*keys).transformWithState(
            statefulProcessor=RunningTotals(rows.schema, keys, self.order_by, totals, StructType(added)),
            outputStructType=output,
            outputMode="append",
            timeMode="EventTime",
            eventTimeColumnName=self.order_by,
        )
        # Named anew: Spark cannot join the rows of a stateful processor with themselves.
        return result.select(*(F.col(quote(field.name)).alias(field.name) for field in output if field.name != _ALL))


def _require_time(rows: DataFrame, column: str) -> None:
    if column not in rows.columns:
        raise BuildError(f"there is no column {column!r} to order by; {did_you_mean(column, rows.columns)}")
    kind = rows.schema[column].dataType.typeName()
    if not kind.startswith("timestamp"):
        raise BuildError(f"{column!r} is {kind}, not a time; order by the column with the watermark")
    if rows.isStreaming and _DELAY not in rows.schema[column].metadata:
        raise BuildError(f"{column!r} has no watermark; order by the column with the watermark")


def _parse_total(total: str) -> tuple[str, str]:
    match = _TOTAL.fullmatch(total)
    assert match is not None
    return match.group(1), match.group(2)


def _total_type(rows: DataFrame, total: Any) -> Any:
    """The type of Spark's own aggregate, which is wider for sums."""
    from pyspark.sql import functions as F  # noqa: N812

    function = {"sum": F.sum, "min": F.min, "max": F.max}[total.function]
    return (
        rows.sparkSession.createDataFrame([], rows.schema).agg(function(total.column).alias("x")).schema["x"].dataType
    )
