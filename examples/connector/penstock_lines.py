"""Sink `lines`: a file of JSON lines for every batch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from penstock.connector import Batch, SinkOptions, Writer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class LinesSink(SinkOptions):
    """A file of JSON lines for every batch; exactly-once: a replayed batch finds its file, or writes it again."""

    kind: ClassVar[str] = "lines"
    modes: ClassVar[frozenset[str]] = frozenset({"append", "update"})
    promise: ClassVar[str] = "exactly-once: a batch is one file with its number, which appears atomically"
    paths: ClassVar[tuple[str, ...]] = ("path",)

    path: str = Field(description="The folder to write to.")
    most_rows: int = Field(default=100_000, ge=1, description="A batch with more rows is refused.")

    def open(self, spark: SparkSession, schema: StructType, mode: str) -> Writer:  # noqa: ARG002
        """Create the folder."""
        folder = Path(self.path)
        folder.mkdir(parents=True, exist_ok=True)
        return LinesWriter(folder, self.most_rows)


@dataclass
class LinesWriter(Writer):
    """Writes each batch to a temporary file and renames it."""

    folder: Path
    most_rows: int

    def write(self, rows: DataFrame, batch: Batch) -> None:
        """Write the batch, unless its file exists."""
        final = self.folder / f"{batch.query}-{batch.number:09d}.jsonl"
        if final.exists():
            return
        found = rows.selectExpr("to_json(struct(*)) AS line").take(self.most_rows + 1)
        if len(found) > self.most_rows:
            raise ValueError(f"batch {batch.number} has more than {self.most_rows} rows; raise 'most_rows'")
        temporary = final.with_suffix(".writing")
        temporary.write_text("".join(f"{row.line}\n" for row in found), encoding="utf-8")
        temporary.replace(final)
