"""Synthetic numbered rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from penstock.connector import MICRO_BATCHES, SourceOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class RateSource(SourceOptions):
    """Rows of (timestamp, value) at a steady rate, for experiments and benchmarks; replayable."""

    kind: ClassVar[str] = "rate"
    triggers: ClassVar[frozenset[str]] = MICRO_BATCHES | {"continuous"}

    rows_per_second: int = Field(default=1, ge=1, description="How many rows appear each second.")
    ramp_up_seconds: int = Field(default=0, ge=0, description="Seconds until the full rate is reached.")
    partitions: int | None = Field(default=None, ge=1, description="Number of partitions; by default Spark's own.")

    @property
    def spark_columns(self) -> str:
        """Columns timestamp and value."""
        return "timestamp timestamp, value bigint"

    @property
    def on_reset(self) -> str:
        """It has no past."""
        return "begins again with value 0"

    def record_facts(self, name: str, number: int) -> Any:
        """The number of the row."""
        return number if name == "value" else super().record_facts(name, number)

    def read(self, spark: SparkSession) -> DataFrame:
        """Columns timestamp and value."""
        options: dict[str, int | str] = {
            "rowsPerSecond": self.rows_per_second,
            "rampUpTime": f"{self.ramp_up_seconds}s",
        }
        if self.partitions is not None:
            options["numPartitions"] = self.partitions
        return spark.readStream.format("rate").options(**options).options(**self.spark_options).load()
