"""Rows without repetition."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from penstock.connector import StepOptions
from penstock.options import Names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class DedupeStep(StepOptions):
    """The first row of each key; a key is remembered until the watermark has passed it, or for ever."""

    kind: ClassVar[str] = "dedupe"

    source: str = Field(alias="from", description="The stream to read.")
    keys: Names = Field(min_length=1, description="Columns that tell a row from another.")
    remember: Literal["watermark", "forever"] = Field(
        default="watermark", description="How long a key is remembered; for ever, the state only grows."
    )

    @property
    def reads(self) -> tuple[str, ...]:
        """The stream that it reads."""
        return (self.source,)

    def build(self, spark: SparkSession, streams: dict[str, DataFrame]) -> DataFrame:  # noqa: ARG002
        """The rows with the repetitions left out."""
        rows = streams[self.source]
        keys = list(self.keys)
        return rows.dropDuplicates(keys) if self.remember == "forever" else rows.dropDuplicatesWithinWatermark(keys)
