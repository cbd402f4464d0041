"""One batch to a table: one row for each key, upserted by Spark's connector, deleted by key from the executors."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock import cql
from penstock.connectors.cassandra._table import Access, Table
from penstock.spark.columns import column

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# A word of CQL: the connector names a parameter after it.
_WRITE_TIME = "penstock_write_time"
_PATIENCE_SECONDS = 120.0
#: What Spark's connector and the drivers say when nodes are away or overloaded, and not when the write is wrong.
_AWAY = re.compile(
    r"AllNodesFailed|NoNodeAvailable|NoHostAvailable|NodeUnavailable|UnavailableException|Unavailable\b|WriteTimeout"
    r"|OperationTimedOut|DriverTimeout|Overloaded|ClosedConnection|ConnectionShutdown|HeartbeatException"
    r"|Connection (?:refused|reset)|Control channel not available|Could not reach any contact point"
    r"|Could not open native connection|Failed to open native connection"
)


@dataclass(frozen=True)
class Write:
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
        rows = self._in_order(rows)
        if self.delete_when is None:
            self._upsert(rows)
            return
        from pyspark.sql import functions as F  # noqa: N812

        # Read twice, computed once.
        rows.persist()
        try:
            gone = F.coalesce(column(self.delete_when), F.lit(False))
            self._upsert(rows.where(~gone).drop(self.delete_when))
            self._delete(rows.where(gone))
        finally:
            rows.unpersist()

    def _in_order(self, rows: DataFrame) -> DataFrame:
        """Rows whose order does not matter: each has the time of its write, or there is one for each key."""
        from pyspark.sql import functions as F  # noqa: N812

        if self.timestamp is None:
            return self._one_for_each_key(rows)
        time_of = column(self.timestamp)
        missing = F.raise_error(F.lit(f"a row has no {self.timestamp!r}, which is the time of its write; leave it out"))
        rows = rows.withColumn(_WRITE_TIME, F.when(time_of.isNull(), missing).otherwise(F.unix_micros(time_of)))
        return rows if self.timestamp in self.table.columns else rows.drop(self.timestamp)

    def _one_for_each_key(self, rows: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812

        rest = [name for name in rows.columns if name not in self.table.key]
        # A delete first: of a row and its deletion, the deletion wins, as in Cassandra.
        rest.sort(key=lambda name: name != self.delete_when)
        keyed = rows.groupBy(*map(column, self.table.key))
        if not rest:
            return keyed.agg(F.count("*").alias(_WRITE_TIME)).drop(_WRITE_TIME)
        if self.keep_nulls:
            return keyed.agg(*(_greatest(rows, [name]).alias(name) for name in rest))
        whole = F.struct(*map(column, rest))
        kept = keyed.agg(F.max_by(whole, _rank(rows, rest)).alias("_row"))
        return kept.select(*map(column, self.table.key), "_row.*")

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
        where = " AND ".join(f"{cql.quoted(name)} = ?" for name in self.table.key)
        text = f"DELETE FROM {cql.quoted(keyspace)}.{cql.quoted(name)}{at} WHERE {where}"  # noqa: S608
        columns = [_WRITE_TIME, *self.table.key] if self.timestamp is not None else list(self.table.key)
        kinds = tuple(self.table.type(column).name if column != _WRITE_TIME else "bigint" for column in columns)
        statement = cassandra_keys.shipped(self.access, text, kinds)
        rows.select(*map(column, columns)).foreachPartition(partial(cassandra_keys.run, statement))


def patiently(write: Callable[[], None], access: Access, stopped: Callable[[], bool]) -> None:
    """Write, and again when nodes that were away are back: an upsert that is repeated changes nothing."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            return write()
        except Exception as error:
            left = deadline - time.monotonic()
            if stopped() or left <= 0 or not _AWAY.search(str(error)):
                raise
            with access.session(left, given_up=stopped):
                continue


def _rank(rows: DataFrame, names: list[str]) -> Column:
    """What the greatest row is judged by; maps have no order, so they are judged as text."""
    from pyspark.sql import functions as F  # noqa: N812

    whole = F.struct(*map(column, names))
    kinds: Any = (rows.schema[name].dataType.simpleString() for name in names)
    return F.to_json(whole) if any("map<" in kind for kind in kinds) else whole


def _greatest(rows: DataFrame, names: list[str]) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    (name,) = names
    return F.max_by(column(name), F.when(column(name).isNotNull(), _rank(rows, names)))
