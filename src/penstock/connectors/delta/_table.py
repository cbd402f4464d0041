"""What is done to a Delta table in one session of its own: made, widened, written, compacted."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.connectors._table_schema import TableColumn, escaped, widens

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_compacted: dict[str, float] = {}
"""When a table was last compacted, as far as this process knows."""
_sessions: dict[tuple[str, str], SparkSession] = {}


@dataclass(frozen=True)
class DeltaTable:
    """A table at a path, seen through one session."""

    spark: SparkSession
    path: str

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

    @property
    def columns(self) -> list[TableColumn]:
        """Its columns, as rows are compared with them."""
        return [
            TableColumn(
                field.name,
                field.dataType.simpleString(),
                # Delta fills these by itself.
                required=not field.nullable and not any(key.startswith("delta.") for key in field.metadata),
                takes=lambda found, wanted=field.dataType: widens(found, wanted),  # type: ignore[misc]
            )
            for field in self.schema
        ]

    def make(self, schema: StructType, partition_by: Sequence[str], options: Mapping[str, str]) -> None:
        """Make the table, or add the columns that it does not have."""
        nothing = self.spark.createDataFrame([], schema)
        writer = nothing.write.format("delta").mode("append").option("mergeSchema", "true").options(**options)
        writer.save(self.path, partitionBy=list(partition_by) or None)

    def append(self, rows: DataFrame, writer: str, options: Mapping[str, str]) -> None:
        """One commit of a batch that the table cannot have yet, with its number.

        Delta's own writer asks the table for the number of the last batch first, and for that reads its whole log anew:
        most of the time that a small batch takes.
        """
        jvm: Any = self.spark._jvm
        delta, none, session = jvm.org.apache.spark.sql.delta, jvm.scala.Option.empty(), self.spark._jsparkSession
        mode = jvm.org.apache.spark.sql.SaveMode.Append
        columns, settings = jvm.PythonUtils.toSeq([]), jvm.PythonUtils.toScalaMap({})
        given = delta.DeltaOptions(jvm.PythonUtils.toScalaMap(dict(options)), session.sessionState().conf())
        log = delta.DeltaLog.forTable(session, self.path)
        transaction = log.startTransaction()
        # As if it had been asked: should another process commit the same batch meanwhile, Delta refuses this one.
        transaction.readTxn().append(writer)
        write = delta.commands.WriteIntoDelta(log, mode, given, columns, settings, rows._jdf, none, none, False)
        actions = write.write(transaction, session, none, False)
        operation = getattr(delta, "DeltaOperations$Write")
        said = given.userMetadata()
        transaction.commit(actions, operation(mode, none, none, said, none, none, none, none, none))

    def merge(self, rows: DataFrame, key: Sequence[str], latest_by: str | None) -> None:
        """Write rows over those with the same key, unless the table has a later one; the others are added."""
        same = " AND ".join(f"old.{escaped(name)} <=> new.{escaped(name)}" for name in key)
        values = {escaped(name): f"new.{escaped(name)}" for name in rows.columns}
        merge = self._table.alias("old").merge(rows.alias("new")._jdf, same)
        if latest_by:
            column = escaped(latest_by)
            matched = merge.whenMatched(f"old.{column} IS NULL OR new.{column} >= old.{column}")
        else:
            matched = merge.whenMatched()
        matched.updateExpr(values).whenNotMatched().insertExpr(values).execute()

    def compact(self) -> None:
        """Put small files together; readers and old versions see no difference."""
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        try:
            self._table.optimize().executeCompaction()
        except (Py4JJavaError, PySparkException) as error:
            # Another writer changed the same files meanwhile. Nothing is lost; the next time does it.
            if "DELTA_CONCURRENT" not in str(error):
                raise
        _compacted[self.path] = time.time()

    def compacted_seconds_ago(self) -> float:
        """The age of the last compaction, by this process or an earlier one; of the table if there was none."""
        if self.path not in _compacted:
            history = self._rows(self._table.history(), "operation", "timestamp")
            moments = [row.timestamp.timestamp() for row in history if row.operation == "OPTIMIZE"]
            _compacted[self.path] = max(moments or [row.timestamp.timestamp() for row in history])
        return time.time() - _compacted[self.path]

    def vacuum(self, hours: float) -> None:
        """Delete files that have not been part of the table for so long."""
        self._table.vacuum(float(hours))

    @property
    def _static(self) -> Any:
        jvm: Any = self.spark._jvm
        return jvm.io.delta.tables.DeltaTable

    @property
    def _table(self) -> Any:
        return self._static.forPath(self.spark._jsparkSession, self.path)

    def _rows(self, jvm_rows: Any, *columns: str) -> list[Any]:
        from pyspark.sql import DataFrame

        return DataFrame(jvm_rows, self.spark).select(*columns).collect()


def apart(rows: DataFrame, name: str, settings: Mapping[str, str | None]) -> DataFrame:
    """The same rows in a session of this name: targets that are written side by side share one, and its settings."""
    from pyspark.sql import DataFrame, SparkSession

    jvm: Any = rows.sparkSession._jvm
    context = rows.sparkSession.sparkContext
    key = (context.applicationId, name)
    if key not in _sessions:
        # Kept, not made for every batch: Spark lets go of a session only when memory is short.
        _sessions[key] = SparkSession(context, rows.sparkSession._jsparkSession.cloneSession())
    spark = _sessions[key]
    for setting, value in settings.items():
        if value is None:
            spark.conf.unset(setting)
        else:
            spark.conf.set(setting, value)
    moved = jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, rows._jdf.logicalPlan())
    return DataFrame(moved, spark)
