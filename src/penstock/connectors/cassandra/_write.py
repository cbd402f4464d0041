"""Writes one batch to a table: upserts through Spark's connector, deletes by key from the executors."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock import cql
from penstock.connectors.cassandra._table import Access, Table
from penstock.spark import column

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# A valid CQL identifier: the connector uses it as a parameter name.
_WRITE_TIME = "penstock_write_time"
_RETRY_FOR_SECONDS = 120.0
#: Errors of Spark's connector and the drivers when nodes are unavailable or overloaded.
_TRANSIENT = re.compile(
    r"AllNodesFailed|NoNodeAvailable|NoHostAvailable|NodeUnavailable|UnavailableException|Unavailable\b|WriteTimeout"
    r"|OperationTimedOut|DriverTimeout|Overloaded|ClosedConnection|ConnectionShutdown|HeartbeatException"
    r"|Connection (?:refused|reset)|Control channel not available|Could not reach any contact point"
    r"|Could not open native connection|Failed to open native connection"
)


@dataclass(frozen=True)
class TableWrite:
    """How rows become rows of a table."""

    access: Access
    table: Table
    options: dict[str, str]
    timestamp: str | None = None
    delete_when: str | None = None
    keep_nulls: bool = False
    ttl_seconds: int | None = None

    def write(self, rows: DataFrame) -> None:
        """Upsert the rows, and delete those that are flagged."""
        rows = self._make_order_irrelevant(rows)
        if self.delete_when is None:
            self._upsert(rows)
            return
        from pyspark.sql import functions as F  # noqa: N812

        # Read twice below, computed once.
        rows.persist()
        try:
            is_deleted = F.coalesce(column(self.delete_when), F.lit(False))
            self._upsert(rows.where(~is_deleted).drop(self.delete_when))
            self._delete(rows.where(is_deleted))
        finally:
            rows.unpersist()

    def _make_order_irrelevant(self, rows: DataFrame) -> DataFrame:
        """Rows whose order does not matter: each has a write time, or there is one per key."""
        from pyspark.sql import functions as F  # noqa: N812

        if self.timestamp is None:
            return self._one_per_key(rows)
        time_of = column(self.timestamp)
        missing = F.raise_error(F.lit(f"a row has no {self.timestamp!r}, its write time; leave such rows out"))
        rows = rows.withColumn(_WRITE_TIME, F.when(time_of.isNull(), missing).otherwise(F.unix_micros(time_of)))
        return rows if self.timestamp in self.table.columns else rows.drop(self.timestamp)

    def _one_per_key(self, rows: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812

        rest = [name for name in rows.columns if name not in self.table.key]
        # The delete flag sorts first, so that a delete wins over a write, as in Cassandra.
        rest.sort(key=lambda name: name != self.delete_when)
        keyed = rows.groupBy(*map(column, self.table.key))
        if not rest:
            return keyed.agg(F.count("*").alias(_WRITE_TIME)).drop(_WRITE_TIME)
        if self.keep_nulls:
            return keyed.agg(*(_greatest(rows, [name]).alias(name) for name in rest))
        row = F.struct(*map(column, rest))
        greatest = keyed.agg(F.max_by(row, _sort_value(rows, rest)).alias("_row"))
        return greatest.select(*map(column, self.table.key), "_row.*")

    def _upsert(self, rows: DataFrame) -> None:
        options = {**self.options, "spark.cassandra.output.ignoreNulls": str(self.keep_nulls).lower()}
        if self.timestamp is not None:
            options["writetime"] = _WRITE_TIME
        if self.ttl_seconds is not None:
            options["ttl"] = str(self.ttl_seconds)
        rows.write.format("org.apache.spark.sql.cassandra").mode("append").options(**options).save()

    def _delete(self, rows: DataFrame) -> None:
        from penstock.connectors.cassandra import _keys as cassandra_keys

        keyspace, _, name = self.table.name.partition(".")
        at = " USING TIMESTAMP ?" if self.timestamp is not None else ""
        where = " AND ".join(f"{cql.quote(name)} = ?" for name in self.table.key)
        text = f"DELETE FROM {cql.quote(keyspace)}.{cql.quote(name)}{at} WHERE {where}"  # noqa: S608
        columns = [_WRITE_TIME, *self.table.key] if self.timestamp is not None else list(self.table.key)
        kinds = tuple(self.table.type(column).name if column != _WRITE_TIME else "bigint" for column in columns)
        statement = cassandra_keys.build_statement(self.access, text, kinds)
        rows.select(*map(column, columns)).foreachPartition(partial(cassandra_keys.run, statement))


def write_with_retries(write: Callable[[], None], access: Access, is_stopped: Callable[[], bool]) -> None:
    """Write, and retry when unavailable nodes are back: repeating an upsert changes nothing."""
    deadline = time.monotonic() + _RETRY_FOR_SECONDS
    while True:
        try:
            return write()
        except Exception as error:
            left = deadline - time.monotonic()
            if is_stopped() or left <= 0 or not _TRANSIENT.search(str(error)):
                raise
            with access.session(left, is_stopped=is_stopped):
                continue


def _sort_value(rows: DataFrame, names: list[str]) -> Column:
    """The value that rows are compared by; maps have no order, so rows with maps are compared as JSON."""
    from pyspark.sql import functions as F  # noqa: N812

    whole = F.struct(*map(column, names))
    kinds: Any = (rows.schema[name].dataType.simpleString() for name in names)
    return F.to_json(whole) if any("map<" in kind for kind in kinds) else whole


def _greatest(rows: DataFrame, names: list[str]) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    (name,) = names
    return F.max_by(column(name), F.when(column(name).isNotNull(), _sort_value(rows, names)))
