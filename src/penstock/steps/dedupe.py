"""Rows without duplicates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from penstock.connector import StepOptions
from penstock.options import Names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class DedupeStep(StepOptions):
    """The first row of each key; a key is kept in the state until the watermark has passed it, or forever."""

    kind: ClassVar[str] = "dedupe"

    source: str = Field(alias="from", description="The stream to read.")
    keys: Names = Field(min_length=1, description="Columns that identify a row.")
    remember: Literal["watermark", "forever"] = Field(
        default="watermark", description="How long a key is remembered; with forever the state only grows."
    )

    @property
    def reads(self) -> tuple[str, ...]:
        """The stream that it reads."""
        return (self.source,)

    @property
    def named_columns(self) -> Iterator[tuple[str, str, Sequence[str]]]:
        """The key."""
        yield "keys", self.source, self.keys

    def build(self, spark: SparkSession, streams: dict[str, DataFrame]) -> DataFrame:  # noqa: ARG002
        """The rows without duplicates."""
        rows = streams[self.source]
        keys = list(self.keys)
        return rows.dropDuplicates(keys) if self.remember == "forever" else rows.dropDuplicatesWithinWatermark(keys)
