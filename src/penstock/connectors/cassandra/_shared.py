"""What source and sink of Cassandra share: where the cluster is, and how Spark's connector is told."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from penstock.connectors.cassandra._table import Access

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from typing_extensions import Self

EMBEDDED = "embedded"
FORMAT = "org.apache.spark.sql.cassandra"
_CONNECT_MILLISECONDS = 5000
SESSIONS = itertools.count()
_NEWS_SECONDS = 15.0
_LOOK_SECONDS = 0.1
_OURS = (
    "spark.cassandra.connection.host",
    "spark.cassandra.auth.username",
    "spark.cassandra.auth.password",
    "spark.cassandra.output.consistency.level",
    "spark.cassandra.input.consistency.level",
    "spark.cassandra.output.ttl",
    "spark.cassandra.output.timestamp",
    "spark.cassandra.output.ignoreNulls",
    "spark.cassandra.output.ifNotExists",
    "confirm.truncate",
)

Consistency = Literal["ANY", "ONE", "TWO", "THREE", "QUORUM", "ALL", "LOCAL_ONE", "LOCAL_QUORUM", "EACH_QUORUM"]


class OfCassandra:
    """Where the cluster is, and which table it is about."""

    jars: ClassVar[tuple[str, ...]] = ("cassandra",)
    hosts: str
    table: str
    user: str
    password: str
    consistency: Consistency
    _session_number: int

    @property
    def services(self) -> tuple[str, ...]:
        """`embedded` is the Cassandra of this machine."""
        return ("cassandra",) if self.hosts == EMBEDDED else ()

    def at(self, service: str, address: str) -> Self:
        """The same with `embedded` replaced by the node's address."""
        if service not in self.services:
            return self
        return self.model_copy(update={"hosts": address})  # type: ignore[attr-defined,no-any-return]

    @property
    def access(self) -> Access:
        """Where the cluster is, and who asks."""
        return Access(self.hosts, str(self.user), str(self.password), self.consistency)

    def spark_access(self) -> dict[str, str]:
        """The table and the cluster as Spark's connector is told, and what the file adds."""
        keyspace, _, table = self.table.partition(".")
        options = {
            "keyspace": keyspace,
            "table": table,
            "spark.cassandra.connection.host": self.hosts,
            # A node that comes back is noticed soon.
            "spark.cassandra.connection.reconnectionDelayMS.max": "2000",
            "spark.cassandra.connection.keepAliveMS": "600000",
            # Equal settings share a session, and one that saw its cluster go away hangs for ever when it is asked for
            # a table again: so each sink has its own, and another one after each failure.
            "spark.cassandra.connection.timeoutMS": str(_CONNECT_MILLISECONDS + self._session_number),
            # Requests under way from each task; the usual five leave a node waiting.
            "spark.cassandra.output.concurrent.writes": "64",
            "spark.cassandra.input.consistency.level": self.consistency,
            "spark.cassandra.output.consistency.level": self.consistency,
        }
        if self.user:
            options |= {
                "spark.cassandra.auth.username": str(self.user),
                "spark.cassandra.auth.password": str(self.password),
            }
        return {**options, **self.spark_options}  # type: ignore[attr-defined]


def refuse_ours(options: dict[str, Any]) -> dict[str, Any]:
    ours = {each.lower(): each for each in _OURS}
    found = [key for key in options if key.lower() in ours]
    if found:
        raise ValueError(f"'options' has {found[0]!r}, which is ours to set; use the connector's own options instead")
    return options


def load(spark: SparkSession, options: dict[str, str]) -> DataFrame:
    """The table, once Spark's connector knows it too: it hears of a new one a moment later than we do."""
    deadline = time.monotonic() + _NEWS_SECONDS
    while True:
        try:
            return spark.read.format(FORMAT).options(**options).load()
        except Exception as error:
            # Spark 4 has no class of this name any more, so the connector cannot even say it properly.
            unknown = "NoSuchTable" in str(error) or "NoSuchNamespace" in str(error)
            if not unknown or time.monotonic() > deadline:
                raise
            time.sleep(_LOOK_SECONDS)
