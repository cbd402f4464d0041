"""A SELECT over named streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from penstock.connector import StepOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class SqlStep(StepOptions):
    """One SELECT in Spark's SQL; it reads the streams that it names."""

    kind: ClassVar[str] = "sql"

    text: str = Field(min_length=1, description="The SELECT.")

    def build(self, spark: SparkSession, streams: dict[str, DataFrame]) -> DataFrame:
        """The rows of the SELECT; each stream is a view with its name."""
        for name, rows in streams.items():
            rows.createOrReplaceTempView(name)
        return spark.sql(self.text)
