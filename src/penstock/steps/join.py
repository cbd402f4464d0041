"""Two streams joined by key within a time: the bound and the watermarks that end the wait are written here, once.

A row of either side is kept until the watermark has passed its time plus `within`: then no match can come any more,
an outer join writes it with nulls, and its state is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from penstock.connector import StepOptions
from penstock.errors import BuildError
from penstock.options import Duration, seconds
from penstock.spark import column
from penstock.steps.lookup import Pairs
from penstock.text import did_you_mean

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_DELAY = "spark.watermarkDelayMs"
"""Spark's mark on the column of a watermark."""
_OWN = "_penstock_right_"


class JoinStep(StepOptions):
    """Rows of two streams with the same key and times that are near each other; state ends with the watermarks."""

    kind: ClassVar[str] = "join"

    left: str = Field(description="The stream whose columns come first; it has a watermark.")
    right: str = Field(description="The other stream; it has a watermark.")
    on: Pairs = Field(min_length=1, description="The key: [column], or {column of left: column of right}.")
    within: Duration = Field(description="How far apart the times of two rows may be.")
    side: Literal["inner", "left", "right", "full"] = Field(
        default="inner",
        alias="kind",
        description="Which rows without a match are kept, with nulls: of no side by default.",
    )
    columns: Pairs = Field(
        default={}, description="What to take from right: [column], or {new name: column}; all but the key by default."
    )

    @property
    def reads(self) -> tuple[str, ...]:
        """Both streams."""
        return (self.left, self.right)

    @property
    def named_columns(self) -> Iterator[tuple[str, str, Sequence[str]]]:
        """The keys, and what is taken from the right stream."""
        yield "on", self.left, list(self.on)
        yield "on", self.right, list(self.on.values())
        yield "columns", self.right, list(self.columns.values())

    def build(self, spark: SparkSession, streams: dict[str, DataFrame]) -> DataFrame:  # noqa: ARG002
        """The joined rows."""
        from pyspark.sql import functions as F  # noqa: N812

        left, right = streams[self.left], streams[self.right]
        _require(left, self.left, self.on)
        _require(right, self.right, [*self.on.values(), *self.columns.values()])
        mine, theirs = _event_time(left, self.left), _event_time(right, self.right)
        added = self._add(right.columns)
        if (twice := self.find_collision(left.columns, right.columns)) is not None:
            raise BuildError("; ".join(self.explain_collision(twice)))
        other = right.select(*(column(name).alias(f"{_OWN}{name}") for name in right.columns))
        apart = F.expr(f"INTERVAL '{seconds(self.within):f}' SECOND")
        time = column(f"{_OWN}{theirs}")
        same: Any = [column(ours) == column(f"{_OWN}{name}") for ours, name in self.on.items()]
        near = [time >= column(mine) - apart, time <= column(mine) + apart]
        rows = left.join(other, [*same, *near], {"full": "full_outer"}.get(self.side, self.side))
        keys = {ours: F.coalesce(column(ours), column(f"{_OWN}{name}")).alias(ours) for ours, name in self.on.items()}
        kept = keys if self.side in ("right", "full") else {}
        own = [kept.get(name, column(name)) for name in left.columns]
        return rows.select(*own, *(column(f"{_OWN}{name}").alias(new) for new, name in added.items()))

    def find_collision(self, left: Sequence[str], right: Sequence[str]) -> str | None:
        """A column of the right stream that would have the name of one of the left; None if there is none."""
        have = {name.lower() for name in left}
        return next((name for name in self._add(right) if name.lower() in have), None)

    def explain_collision(self, name: str) -> tuple[str, str]:
        """What is wrong with such a column, and what to do."""
        fix = f"rename what is added: columns: {{{self.right}_{name}: {name}, ...}}"
        return f"both {self.left!r} and {self.right!r} have {name!r}", fix

    def _add(self, right: Sequence[str]) -> dict[str, str]:
        """New names of what is taken from the right stream, with its columns."""
        keys = {name.lower() for name in self.on.values()}
        return self.columns or {name: name for name in right if name.lower() not in keys}


def _require(rows: DataFrame, stream: str, names: Sequence[str] | Mapping[str, str]) -> None:
    have = [name.lower() for name in rows.columns]
    for name in names:
        if name.lower() not in have:
            raise BuildError(f"{stream!r} has no column {name!r}; {did_you_mean(name, rows.columns)}")


def _event_time(rows: DataFrame, stream: str) -> str:
    """The column with the watermark."""
    found = [
        field.name for field in rows.schema if _DELAY in field.metadata and field.dataType.typeName() == "timestamp"
    ]
    if len(found) != 1:
        says = f"{stream!r} has no watermark" if not found else f"{stream!r} has several: {', '.join(found)}"
        raise BuildError(f"{says}; a join ends with the watermark of one column of each stream")
    return found[0]
