"""Sink `lines`: a file of JSON lines for every batch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from penstock.options import Batch, SinkOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class LinesSink(SinkOptions):
    """A file of JSON lines for every batch; exactly-once: a replayed batch finds its file, or makes it anew."""

    kind: ClassVar[str] = "lines"
    modes: ClassVar[frozenset[str]] = frozenset({"append", "update"})
    promise: ClassVar[str] = "exactly-once: a batch is one file with its number, which appears whole"
    paths: ClassVar[tuple[str, ...]] = ("path",)

    path: str = Field(description="The folder to write to.")
    most_rows: int = Field(default=100_000, ge=1, description="A batch with more rows is refused.")

    def write_batch(self, rows: DataFrame, batch: Batch) -> None:
        """The batch, written aside and then moved into place."""
        final = Path(self.path, f"{batch.query}-{batch.number:09d}.jsonl")
        if final.exists():
            return
        found = rows.selectExpr("to_json(struct(*)) AS line").take(self.most_rows + 1)
        if len(found) > self.most_rows:
            raise ValueError(f"batch {batch.number} has more than {self.most_rows} rows; raise 'most_rows'")
        final.parent.mkdir(parents=True, exist_ok=True)
        aside = final.with_suffix(".writing")
        aside.write_text("".join(f"{row.line}\n" for row in found), encoding="utf-8")
        aside.replace(final)
