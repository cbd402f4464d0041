"""One batch to every target of a sink: computed once, written side by side, nothing written twice.

batch -> kept -> target -> ledger        a replayed batch skips the targets that the ledger has
              -> target -> ledger        and repeats the others by a write that is idempotent by itself
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.errors import PenstockError
from penstock.model import Pipeline, Sink, Target
from penstock.options import Batch
from penstock.spark.errors import summary
from penstock.storage.ledger import Ledger

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ROWS = "_rows_of_the_sink"

Tell = Callable[..., None]
"""Takes a fact for the event log: `tell("missed", sink="a", target="b", rows=3)`."""

Guard = Callable[[], None]
"""Raises when this process may no longer write."""


def unguarded() -> None:
    """For tests and notebooks: nobody else writes."""


@dataclass
class TargetWriter:
    """What `foreachBatch` calls."""

    pipeline: Pipeline
    sink: Sink
    ledger: Ledger
    tell: Tell
    guard: Guard = unguarded

    def __call__(self, rows: DataFrame, number: int) -> None:
        """Write one batch to every target that does not have it."""
        query = rows.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId") or ""
        waiting = [target for target in self.sink.targets if not self.ledger.has(target.name, query, number)]
        if waiting:
            self.ledger.begin(number)
        if len(waiting) == 1:
            self._write(waiting[0], rows, self._batch(waiting[0], query, number))
        elif waiting:
            rows.persist()
            try:
                self._side_by_side(waiting, rows, query, number)
            finally:
                rows.unpersist()

    def _side_by_side(self, targets: Sequence[Target], rows: DataFrame, query: str, number: int) -> None:
        from pyspark.util import inheritable_thread_target

        session: Any = rows.sparkSession
        with ThreadPoolExecutor(len(targets), thread_name_prefix=self.sink.name) as pool:
            write = inheritable_thread_target(session)(self._write)
            writes = [pool.submit(write, target, rows, self._batch(target, query, number)) for target in targets]
        failures = [error for each in writes if (error := each.exception())]
        if failures:
            raise failures[0]

    def _write(self, target: Target, rows: DataFrame, batch: Batch) -> None:
        self.guard()
        rows = rows_for(target, rows)
        try:
            target.connector.write_batch(rows, batch)
        except Exception as error:
            if not target.optional:
                if isinstance(error, PenstockError):
                    raise error.placed(f"target {target.name!r}") from error
                raise
            self.tell(
                "missed",
                sink=self.sink.name,
                target=target.name,
                batch=batch.number,
                rows=rows.count(),
                reason=summary(error),
            )
        self.ledger.write(target.name, batch.query, batch.number)

    def _batch(self, target: Target, query: str, number: int) -> Batch:
        writer = f"{self.pipeline.name}.{self.sink.name}.{target.name}"
        return Batch(number, query, writer, self.sink.mode)


def rows_for(target: Target, rows: DataFrame) -> DataFrame:
    """What a target gets of the rows."""
    text = target.sql(_ROWS)
    if not text:
        return rows
    # A view, and not sql(rows=rows): Spark would not see that these rows are the kept ones.
    rows.createOrReplaceTempView(_ROWS)
    return rows.sparkSession.sql(text)
