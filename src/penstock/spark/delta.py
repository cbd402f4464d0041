"""A Delta table through Delta's Java classes: what its SQL and DataFrame interfaces do not offer or do too slowly."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.options import quote
from penstock.spark.internals import jvm

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


@dataclass
class DeltaTable:
    """A table at a path, seen through one session."""

    spark: SparkSession
    path: str
    _compacted_at: float | None = field(default=None, init=False)
    """When it was last compacted, in seconds since the epoch, as far as is known."""

    @property
    def exists(self) -> bool:
        """Whether there is a Delta table at the path."""
        return bool(self._static.isDeltaTable(self.spark._jsparkSession, self.path))

    @property
    def schema(self) -> StructType:
        """Its columns now."""
        return self.spark.read.format("delta").load(self.path).schema

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The columns that are folders."""
        (row,) = self._rows(self._table.detail(), "partitionColumns")
        return tuple(row.partitionColumns)

    def create(self, schema: StructType, partition_by: Sequence[str], options: Mapping[str, str]) -> None:
        """Create the table, or add the columns that it does not have."""
        nothing = self.spark.createDataFrame([], schema)
        writer = nothing.write.format("delta").mode("append").option("mergeSchema", "true").options(**options)
        writer.save(self.path, partitionBy=list(partition_by) or None)

    def append(self, rows: DataFrame, writer: str, options: Mapping[str, str]) -> None:
        """One commit of a batch that the table cannot have yet, with its transaction version.

        Delta's own writer first asks the table for the version of the last batch, and for that reads its whole log
        again: most of the time that a small batch takes.
        """
        java = jvm(self.spark)
        delta, none, session = java.org.apache.spark.sql.delta, java.scala.Option.empty(), self.spark._jsparkSession
        mode = java.org.apache.spark.sql.SaveMode.Append
        columns, settings = java.PythonUtils.toSeq([]), java.PythonUtils.toScalaMap({})
        given = delta.DeltaOptions(java.PythonUtils.toScalaMap(dict(options)), session.sessionState().conf())
        log = delta.DeltaLog.forTable(session, self.path)
        transaction = log.startTransaction()
        # As if it had been asked: should another process commit the same batch meanwhile, Delta refuses this one.
        transaction.readTxn().append(writer)
        write = delta.commands.WriteIntoDelta(log, mode, given, columns, settings, rows._jdf, none, none, False)
        actions = write.write(transaction, session, none, False)
        operation = getattr(delta, "DeltaOperations$Write")
        metadata = given.userMetadata()
        transaction.commit(actions, operation(mode, none, none, metadata, none, none, none, none, none))

    def merge(self, rows: DataFrame, key: Sequence[str], latest_by: str | None) -> None:
        """Write rows over those with the same key, unless the table has a later one; add the others."""
        same = " AND ".join(f"old.{quote(name)} <=> new.{quote(name)}" for name in key)
        values = {quote(name): f"new.{quote(name)}" for name in rows.columns}
        merge = self._table.alias("old").merge(rows.alias("new")._jdf, same)
        if latest_by:
            column = quote(latest_by)
            matched = merge.whenMatched(f"old.{column} IS NULL OR new.{column} >= old.{column}")
        else:
            matched = merge.whenMatched()
        matched.updateExpr(values).whenNotMatched().insertExpr(values).execute()

    def compact(self) -> None:
        """Rewrite small files as larger ones; readers and old versions see no difference."""
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        try:
            self._table.optimize().executeCompaction()
        except (Py4JJavaError, PySparkException) as error:
            # Another writer changed the same files meanwhile. Nothing is lost; the next compaction does it.
            if "DELTA_CONCURRENT" not in str(error):
                raise
        self._compacted_at = time.time()

    def seconds_since_compaction(self) -> float:
        """The age of the last compaction, by this process or an earlier one; of the table if there was none."""
        if self._compacted_at is None:
            history = self._rows(self._table.history(), "operation", "timestamp")
            times = [row.timestamp.timestamp() for row in history if row.operation == "OPTIMIZE"]
            self._compacted_at = max(times or [row.timestamp.timestamp() for row in history])
        return time.time() - self._compacted_at

    def vacuum(self, hours: float) -> None:
        """Delete files that have not been part of the table for so long."""
        self._table.vacuum(float(hours))

    @property
    def _static(self) -> Any:
        return jvm(self.spark).io.delta.tables.DeltaTable

    @property
    def _table(self) -> Any:
        return self._static.forPath(self.spark._jsparkSession, self.path)

    def _rows(self, java_rows: Any, *columns: str) -> list[Any]:
        from pyspark.sql import DataFrame

        return DataFrame(java_rows, self.spark).select(*columns).collect()
