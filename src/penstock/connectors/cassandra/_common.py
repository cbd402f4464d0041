"""Options that the Cassandra source and sink share, and those of Spark's connector."""

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
_NEW_TABLE_SECONDS = 15.0
_RETRY_SECONDS = 0.1
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
    """The cluster and the table."""

    jars: ClassVar[tuple[str, ...]] = ("cassandra",)

    hosts: str = Field(default=EMBEDDED, min_length=1, description="Comma-separated host:port list, or 'embedded'.")
    table: str = Field(pattern=_TABLE, description="The table, as keyspace.table.")
    consistency: Consistency = Field(default="LOCAL_QUORUM", description="How many replicas must answer.")
    user: str = Field(default="", description="The user, if Cassandra requires one.")
    password: SecretText = Field(default="", repr=False, description="The user's password.")

    @field_validator("options")
    @classmethod
    def _reject_ours(cls, options: dict[str, Any]) -> dict[str, Any]:
        ours = {each.lower() for each in _OURS}
        found = [key for key in options if key.lower() in ours]
        if found:
            raise ValueError(
                f"'options' has {found[0]!r}, which Penstock sets; use the connector's own options instead"
            )
        return options

    @property
    def services(self) -> tuple[str, ...]:
        """Cassandra, if `hosts` is `embedded`."""
        return ("cassandra",) if self.hosts == EMBEDDED else ()

    def with_service_address(self, service: str, address: str) -> Self:
        """The same options with `embedded` replaced by the node's address."""
        return self.model_copy(update={"hosts": address}) if service in self.services else self

    def create_missing(self, error: Exception) -> str | None:  # noqa: ARG002
        """Nothing: `create` creates tables, because it knows their key."""
        return None

    @property
    def access(self) -> Access:
        """The cluster, the user and the consistency level."""
        return Access(self.hosts, str(self.user), str(self.password), self.consistency)

    def spark_access(self, session: int) -> dict[str, str]:
        """Options of Spark's connector; equal options share a connection, so `session` makes them differ."""
        keyspace, _, table = self.table.partition(".")
        options = {
            "keyspace": keyspace,
            "table": table,
            "spark.cassandra.connection.host": self.hosts,
            # Reconnect soon after a node is back.
            "spark.cassandra.connection.reconnectionDelayMS.max": "2000",
            "spark.cassandra.connection.keepAliveMS": "600000",
            # A session that has lost its cluster hangs on the next table lookup: use a new one for each start and after
            # each failure.
            "spark.cassandra.connection.timeoutMS": str(_CONNECT_MILLISECONDS + session),
            # Requests in flight per task; the default of five leaves nodes idle.
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
    """Read the table; retries while Spark's connector does not see a new table yet."""
    deadline = time.monotonic() + _NEW_TABLE_SECONDS
    while True:
        try:
            return spark.read.format(FORMAT).options(**options).load()
        except Exception as error:
            # The connector's exception class does not exist in Spark 4, so only the text identifies it.
            unknown = "NoSuchTable" in str(error) or "NoSuchNamespace" in str(error)
            if not unknown or time.monotonic() > deadline:
                raise
            time.sleep(_RETRY_SECONDS)
