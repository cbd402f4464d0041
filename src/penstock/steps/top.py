"""The first rows of each group in an order, and the newest row of each key: what ROW_NUMBER() cannot do on a stream.

Both are one aggregation of Spark, `max_by`, whose state holds the n rows of a group and nothing else:

    update    whenever the rows of a group change, all of them are written again, with their ranks
    append    a group with a window is written once, when the watermark has passed the window
    complete  all groups, after every batch
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field, field_validator

from penstock.connector import StepOptions
from penstock.errors import BuildError
from penstock.options import Names
from penstock.spark import column

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_FOUND = "_penstock_found"
_ORDER = re.compile(r"(?P<name>`[^`]+`|[\w.]+)(?:\s+(?P<way>asc|desc))?", re.IGNORECASE)


def _parse_order(part: str) -> tuple[str, bool]:
    """The column of `price desc`, and whether the largest comes first."""
    match = _ORDER.fullmatch(part.strip())
    if match is None:
        raise ValueError(f"{part!r} is not a column with asc or desc after it, like 'price desc'")
    return match["name"].strip("`"), (match["way"] or "asc").lower() == "desc"


class TopStep(StepOptions):
    """The n first rows of each group in an order, with their ranks; ties are ranked the same way in every run."""

    kind: ClassVar[str] = "top"

    source: str = Field(alias="from", description="The stream to read.")
    by: Names = Field(default=(), description="Columns to group by; without any, one list of all rows.")
    order_by: Names = Field(min_length=1, description="The order: [price desc], or several columns in one direction.")
    n: int = Field(ge=1, le=10_000, description="How many rows of each group.")
    rank: str = Field(default="rank", min_length=1, description="The new column with the place of a row, from 1.")

    @field_validator("order_by")
    @classmethod
    def _have_one_direction(cls, order_by: tuple[str, ...]) -> tuple[str, ...]:
        if len({descends for _, descends in map(_parse_order, order_by)}) > 1:
            raise ValueError("its columns have different directions; write all of them with desc, or none")
        return order_by

    @property
    def reads(self) -> tuple[str, ...]:
        """The stream that it reads."""
        return (self.source,)

    @property
    def named_columns(self) -> Iterator[tuple[str, str, Sequence[str]]]:
        """Those to group and to order by."""
        yield "by", self.source, self.by
        yield "order_by", self.source, [name for name, _ in map(_parse_order, self.order_by)]

    def has_collision(self, columns: Sequence[str]) -> bool:
        """Whether the new column has the name of one of the rows."""
        return self.rank.lower() in [name.lower() for name in columns]

    def build(self, spark: SparkSession, streams: dict[str, DataFrame]) -> DataFrame:  # noqa: ARG002
        """The rows with their ranks."""
        from pyspark.sql import functions as F  # noqa: N812

        if self.has_collision(streams[self.source].columns):
            raise BuildError(f"there is a column {self.rank!r} already; give the place another name with 'rank'")
        order = list(map(_parse_order, self.order_by))
        found = _aggregate(streams[self.source], self.by, order, self.n)
        rows = found.select("*", F.posexplode(_FOUND).alias(self.rank, f"{_FOUND}_row")).drop(_FOUND)
        wanted = _columns(streams[self.source], self.by, f"{_FOUND}_row")
        return rows.select(*wanted, (column(self.rank) + 1).alias(self.rank))


class LatestStep(StepOptions):
    """The newest row of each key."""

    kind: ClassVar[str] = "latest"

    source: str = Field(alias="from", description="The stream to read.")
    by: Names = Field(min_length=1, description="Columns of the key.")
    order_by: Names = Field(min_length=1, description="What is newest: the row with the largest value, like a time.")

    @field_validator("order_by")
    @classmethod
    def _are_columns(cls, order_by: tuple[str, ...]) -> tuple[str, ...]:
        if any(_parse_order(each) != (each.strip("`"), False) for each in order_by):
            raise ValueError("'latest' takes the largest value; name columns only, or use 'top' with n: 1")
        return order_by

    @property
    def reads(self) -> tuple[str, ...]:
        """The stream that it reads."""
        return (self.source,)

    @property
    def named_columns(self) -> Iterator[tuple[str, str, Sequence[str]]]:
        """The key, and those to order by."""
        yield "by", self.source, self.by
        yield "order_by", self.source, self.order_by

    def build(self, spark: SparkSession, streams: dict[str, DataFrame]) -> DataFrame:  # noqa: ARG002
        """The newest rows."""
        rows = streams[self.source]
        found = _aggregate(rows, self.by, [(name.strip("`"), True) for name in self.order_by], None)
        return found.select(*_columns(rows, self.by, _FOUND))


def _aggregate(rows: DataFrame, by: Sequence[str], order: list[tuple[str, bool]], n: int | None) -> DataFrame:
    """The groups, each with its first row or its first n rows."""
    from pyspark.sql import functions as F  # noqa: N812

    # Rows of the same order are ranked by a hash of them: in any order of arrival, the result is the same.
    tie = F.xxhash64(*(column(field.name) for field in rows.schema if not _has_map(field.dataType)))
    key = F.struct(*(_path(name) for name, _ in order), tie)
    arguments = [F.struct(*map(column, rows.columns)), key, *([F.lit(n)] if n is not None else [])]
    call = F.call_function("max_by" if order[0][1] else "min_by", *arguments)
    return rows.groupBy(*map(column, by)).agg(call.alias(_FOUND))


def _columns(rows: DataFrame, by: Sequence[str], found: str) -> list[Column]:
    """The columns of the rows in their order: those of the groups themselves, which keep their watermark."""
    keys = {name.lower() for name in by}
    return [column(name) if name.lower() in keys else column(found).getField(name).alias(name) for name in rows.columns]


def _path(name: str) -> Column:
    """A column, or a field of one: price.amount."""
    from functools import reduce

    first, *fields = name.split(".")
    return reduce(lambda found, each: found.getField(each), fields, column(first))


def _has_map(kind: Any) -> bool:
    return "map<" in kind.simpleString() or "variant" in kind.simpleString()
