"""Rows in the driver's memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from penstock.connector import MICRO_BATCHES, SinkOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter


class MemorySink(SinkOptions):
    """A table in the driver's memory with the sink's name, queryable by SQL; lost when the run ends."""

    kind: ClassVar[str] = "memory"
    modes: ClassVar[frozenset[str]] = frozenset({"append", "complete"})
    triggers: ClassVar[frozenset[str]] = MICRO_BATCHES | {"continuous"}
    promise: ClassVar[str] = "none (debug only): gone when the run ends"
    has_checkpoint: ClassVar[bool] = False
    can_share: ClassVar[bool] = False

    @property
    def native(self) -> bool:
        """Spark keeps the table by itself."""
        return True

    def on_replay(self, mode: str) -> str:  # noqa: ARG002
        """Nothing outlives a run."""
        return "is empty at every start"

    def write_stream(self, rows: DataFrame) -> DataStreamWriter:
        """A writer into the table."""
        return rows.writeStream.format("memory").options(**self.spark_options)
