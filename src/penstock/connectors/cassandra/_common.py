"""What source and sink of Cassandra share: where the cluster is, and how Spark's connector is told."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, field_validator

from penstock.connector import ConnectorOptions
from penstock.connectors.cassandra._table import Access
from penstock.options import SecretText

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from typing_extensions import Self

EMBEDDED = "embedded"
_TABLE = r"^\w+\.\w+$"
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


class CassandraOptions(ConnectorOptions):
    """Where the cluster is, and which table it is about."""

    jars: ClassVar[tuple[str, ...]] = ("cassandra",)

    hosts: str = Field(default=EMBEDDED, min_length=1, description="Comma-separated host:port list, or 'embedded'.")
    table: str = Field(pattern=_TABLE, description="The table, as keyspace.table.")
    consistency: Consistency = Field(default="LOCAL_QUORUM", description="How many replicas must answer.")
    user: str = Field(default="", description="The user, if Cassandra asks for one.")
    password: SecretText = Field(default="", repr=False, description="The user's password.")

    @field_validator("options")
    @classmethod
    def _leave_ours(cls, options: dict[str, Any]) -> dict[str, Any]:
        ours = {each.lower() for each in _OURS}
        found = [key for key in options if key.lower() in ours]
        if found:
            raise ValueError(
                f"'options' has {found[0]!r}, which is ours to set; use the connector's own options instead"
            )
        return options

    @property
    def services(self) -> tuple[str, ...]:
        """`embedded` is the Cassandra of this machine."""
        return ("cassandra",) if self.hosts == EMBEDDED else ()

    def with_service_address(self, service: str, address: str) -> Self:
        """The same with `embedded` replaced by the node's address."""
        return self.model_copy(update={"hosts": address}) if service in self.services else self

    def create_missing(self, error: Exception) -> str | None:  # noqa: ARG002
        """A table is created by `create`, which knows its key."""
        return None

    @property
    def access(self) -> Access:
        """Where the cluster is, and who asks."""
        return Access(self.hosts, str(self.user), str(self.password), self.consistency)

    def spark_access(self, session: int) -> dict[str, str]:
        """What Spark's connector is told; equal settings share a session with the cluster, so `session` tells them apart."""
        keyspace, _, table = self.table.partition(".")
        options = {
            "keyspace": keyspace,
            "table": table,
            "spark.cassandra.connection.host": self.hosts,
            # A node that comes back is noticed soon.
            "spark.cassandra.connection.reconnectionDelayMS.max": "2000",
            "spark.cassandra.connection.keepAliveMS": "600000",
            # A session that saw its cluster go away hangs when it is asked for a table again: so each start has its
            # own, and another one after each failure.
            "spark.cassandra.connection.timeoutMS": str(_CONNECT_MILLISECONDS + session),
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
        return {**options, **self.spark_options}


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
