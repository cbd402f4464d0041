"""One batch to every target of a sink: computed once, written in parallel, nothing written twice.

batch -> cached -> target -> ledger        a replayed batch skips the targets that the ledger has
                -> target -> ledger        and repeats the others by a write that is idempotent by itself
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.connector import Batch, Writer
from penstock.errors import PenstockError, RunError
from penstock.events import Emit
from penstock.model import Location, Pipeline, Sink, Target, TextMap
from penstock.spark.errors import find_offset, summary
from penstock.storage.ledger import Ledger

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_VIEW = "_penstock_batch"

Guard = Callable[[], None]
"""Raises when this process may no longer write."""


def allow_write() -> None:
    """For tests and notebooks, where no other process writes."""


@dataclass
class TargetWriters:
    """The writers of one sink's targets; called by `foreachBatch`."""

    pipeline: Pipeline
    sink: Sink
    ledger: Ledger
    emit: Emit
    guard: Guard = allow_write
    writers: dict[str, Writer] = field(default_factory=dict)

    def open(self, rows: DataFrame) -> None:
        """Open every target for rows of these columns, before the first batch."""
        for target in self.sink.targets:
            try:
                self._open(target, rows_for(target, rows))
                self._refuse_lost_batches(target)
            except Exception as error:
                if not target.optional:
                    raise
                self.emit("target_away", sink=self.sink.name, target=target.name, reason=summary(error))

    def close(self) -> None:
        """Close every writer; the query has ended."""
        for writer in self.writers.values():
            writer.close()

    def __call__(self, rows: DataFrame, number: int) -> None:
        """Write one batch to every target that does not have it."""
        query = rows.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId") or ""
        pending = [target for target in self.sink.targets if not self.ledger.has(target.name, query, number)]
        if pending:
            self.ledger.begin(number)
        if len(pending) == 1:
            self._write(pending[0], rows, self._batch(pending[0], query, number))
        elif pending:
            rows.persist()
            try:
                self._write_in_parallel(pending, rows, query, number)
            finally:
                rows.unpersist()

    def _write_in_parallel(self, targets: Sequence[Target], rows: DataFrame, query: str, number: int) -> None:
        from pyspark.util import inheritable_thread_target

        session: Any = rows.sparkSession
        with ThreadPoolExecutor(len(targets), thread_name_prefix=self.sink.name) as pool:
            write = inheritable_thread_target(session)(self._write)
            writes = [pool.submit(write, target, rows, self._batch(target, query, number)) for target in targets]
        failures = [error for each in writes if (error := each.exception())]
        if failures:
            raise failures[0]

    def _open(self, target: Target, rows: DataFrame) -> Writer:
        writer = target.connector.open(rows.sparkSession, rows.schema, self.sink.mode)
        self.writers[target.name] = writer
        return writer

    def _refuse_lost_batches(self, target: Target) -> None:
        """The target itself still has what the ledger says: a power cut, or someone, may have taken it away."""
        entry = self.ledger.entry(target.name)
        if target.optional or entry.batch < 0 or entry.query != self.ledger.query:
            return
        has = self.writers[target.name].last_batch(self._batch(target, entry.query, entry.batch))
        if has is not None and has < entry.batch:
            found = f"batches up to {has}" if has >= 0 else "no batch of this checkpoint"
            says = f"target {target.name!r} has {found}, and batch {entry.batch} was written to it: its rows are lost"
            raise RunError(f"{says}; restore the target, or read everything again with `penstock reset`", retry=False)

    def _write(self, target: Target, rows: DataFrame, batch: Batch) -> None:
        self.guard()
        try:
            selected = rows_for(target, rows)
            writer = self.writers.get(target.name) or self._open(target, selected)
            writer.write(selected, batch)
        except Exception as error:
            if not target.optional:
                if isinstance(error, PenstockError):
                    raise error.add_place(f"target {target.name!r}") from error
                raise
            facts = {"sink": self.sink.name, "target": target.name, "batch": batch.number}
            self.emit("missed", **facts, rows=rows.count(), reason=summary(error))
        # Once more: the write may have lasted longer than the lease.
        self.guard()
        self.ledger.write(target.name, batch.query, batch.number)

    def _batch(self, target: Target, query: str, number: int) -> Batch:
        writer = f"{self.pipeline.name}.{self.sink.name}.{target.name}"
        return Batch(number, query, writer, self.sink.mode)


def locate_in_target(target: Target, error: Exception) -> Location:
    """The place in the user's file that a refusal of a target's SQL is about."""
    offset = None if isinstance(error, PenstockError) else find_offset(batch_sql(target), error)
    return target.at if offset is None else batch_sql_at(target).locate(offset)


def batch_sql(target: Target) -> str:
    """What a target selects of each batch; empty if it gets the rows as they are."""
    return target.sql(_VIEW)


def batch_sql_at(target: Target) -> TextMap:
    """Where the parts of that SQL are."""
    return target.sql_at(_VIEW)


def rows_for(target: Target, rows: DataFrame) -> DataFrame:
    """The rows and columns that a target gets."""
    text = batch_sql(target)
    if not text:
        return rows
    # A view, not sql(rows=rows): with a parameter Spark would not see that these rows are the cached ones.
    rows.createOrReplaceTempView(_VIEW)
    return rows.sparkSession.sql(text)
