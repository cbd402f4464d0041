"""Rows printed on standard output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from penstock.connector import ALL_TRIGGERS, Batch, SinkOptions, Writer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import StructType


class ConsoleSink(SinkOptions):
    """Prints each batch; for debugging, a replayed batch is printed again."""

    kind: ClassVar[str] = "console"
    prints_rows: ClassVar[bool] = True
    triggers = ALL_TRIGGERS
    promise: ClassVar[str] = "none (debug only): a replayed batch is printed again"

    rows: int = Field(default=20, ge=1, description="How many rows of a batch to print.")
    truncate: bool = Field(default=True, description="Cut cells that are longer than 20 characters.")

    @property
    def native(self) -> bool:
        """Spark prints by itself."""
        return True

    def on_replay(self, mode: str) -> str:  # noqa: ARG002
        """Printed again."""
        return "prints the rows again"

    def write_stream(self, rows: DataFrame) -> DataStreamWriter:
        """A writer that prints."""
        options = {"numRows": str(self.rows), "truncate": str(self.truncate).lower(), **self.spark_options}
        return rows.writeStream.format("console").options(**options)

    def open(self, spark: SparkSession, schema: StructType, mode: str) -> Writer:  # noqa: ARG002
        """A writer that prints."""
        return _Printer(self)


@dataclass(frozen=True)
class _Printer(Writer):
    sink: ConsoleSink

    def write(self, rows: DataFrame, batch: Batch) -> None:
        """Print one batch."""
        print(f"{batch.writer}, batch {batch.number}")  # noqa: T201
        rows.show(self.sink.rows, truncate=self.sink.truncate)
