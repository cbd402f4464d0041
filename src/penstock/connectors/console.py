"""Rows printed on standard output."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from penstock.options import ALL_TRIGGERS, Batch, SinkOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter


class ConsoleSink(SinkOptions):
    """Prints each batch; for looking, a replayed batch is printed again."""

    kind: ClassVar[str] = "console"
    triggers = ALL_TRIGGERS
    promise: ClassVar[str] = "for looking: a replayed batch is printed again"

    rows: int = Field(default=20, ge=1, description="How many rows of a batch to print.")
    truncate: bool = Field(default=True, description="Cut cells that are longer than 20 characters.")

    @property
    def native(self) -> bool:
        """Spark prints by itself."""
        return True

    def write(self, rows: DataFrame) -> DataStreamWriter:
        """A writer that prints."""
        options = {"numRows": str(self.rows), "truncate": str(self.truncate).lower(), **self.spark_options}
        return rows.writeStream.format("console").options(**options)

    def write_batch(self, rows: DataFrame, batch: Batch) -> None:
        """Print one batch."""
        print(f"{batch.writer}, batch {batch.number}")  # noqa: T201
        rows.show(self.rows, truncate=self.truncate)
