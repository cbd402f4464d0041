"""Tables of Cassandra: rows upserted by key, small tables beside the streams, keys looked up in large ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, PrivateAttr, field_validator, model_validator

from penstock.connectors.cassandra import _table as cassandra_table
from penstock.connectors.cassandra._shared import EMBEDDED, SESSIONS, Consistency, OfCassandra, load, refuse_ours
from penstock.connectors.cassandra._table import Plan, Table, misfits
from penstock.errors import BuildError, PenstockError
from penstock.options import Batch, Duration, Lookup, Names, Options, SecretText, SinkOptions, SourceOptions, seconds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType
    from typing_extensions import Self

_TABLE = r"^\w+\.\w+$"


class CassandraSource(OfCassandra, SourceOptions):
    """A table beside the streams: read whole with `static`, or key by key by a step `lookup`."""

    kind: ClassVar[str] = "cassandra"
    can_be_stream: ClassVar[bool] = False
    can_be_static: ClassVar[bool] = True
    can_look_up: ClassVar[bool] = True
    tells_changes: ClassVar[bool] = False
    promise: ClassVar[str] = "a table, not a stream: a replayed batch sees it as it is then"

    hosts: str = Field(default=EMBEDDED, min_length=1, description="Comma-separated host:port list, or 'embedded'.")
    table: str = Field(pattern=_TABLE, description="The table, as keyspace.table.")
    schema_: str | None = Field(
        default=None, alias="schema", description="Columns to read, as 'name type, name type'; all unless given."
    )
    consistency: Consistency = Field(default="LOCAL_QUORUM", description="How many replicas must answer a read.")
    user: str = Field(default="", description="Who asks, if Cassandra wants to know.")
    password: SecretText = Field(default="", repr=False, description="The user's password.")

    _session_number: int = PrivateAttr(default_factory=SESSIONS.__next__)
    _check_options = field_validator("options")(refuse_ours)

    def preflight(self, wait_seconds: float, say: Callable[[str], None]) -> None:
        """An error in our words if no node answers, the user is refused, or the table is not there."""
        with self.access.session(wait_seconds, say) as session:
            cassandra_table.find(session, self.hosts, self.table)

    def read(self, spark: SparkSession) -> DataFrame:  # noqa: ARG002
        """A table is no stream."""
        raise BuildError("a cassandra table is no stream; add 'static: true'")

    def read_static(self, spark: SparkSession) -> DataFrame:
        """The declared columns, or all, of every row."""
        from pyspark.sql import functions as F  # noqa: N812
        from pyspark.sql.types import StructType

        if self.schema_ is None:
            return load(spark, self.spark_access())
        declared: Any = StructType.fromDDL(self.schema_)
        self._require(declared)
        rows = load(spark, self.spark_access())
        return rows.select(*(F.col(f"`{each.name}`").cast(each.dataType).alias(each.name) for each in declared))

    def version(self) -> object:
        """Cassandra cannot tell."""
        raise BuildError("Cassandra cannot tell when a table changes; write 'refresh: 10 minutes' or never")

    def look_up(self, rows: DataFrame, lookup: Lookup) -> DataFrame:
        """The rows with the columns of the table's rows that have their keys."""
        from penstock.connectors.cassandra import _lookup as cassandra_lookup

        with self.access.session() as session:
            table = cassandra_table.find(session, self.hosts, self.table)
        return cassandra_lookup.joined(rows, self.access, table, self.schema_, lookup)

    def _require(self, declared: StructType) -> None:
        with self.access.session() as session:
            table = cassandra_table.find(session, self.hosts, self.table)
        cassandra_table.require_readable(table, declared)


class _Create(Options):
    key: Names = Field(min_length=1, description="Columns of the partition key.")
    order: Names = Field(default=(), description="Columns that order the rows of a partition: [at desc].")
    replication: int | dict[str, int] = Field(default=1, description="Copies of a new keyspace, or {datacenter: 3}.")

    @field_validator("order")
    @classmethod
    def _is_an_order(cls, order: tuple[str, ...]) -> tuple[str, ...]:
        for each in order:
            if len(each.split()) not in (1, 2) or each.lower().split()[1:] not in ([], ["asc"], ["desc"]):
                raise ValueError(f"'order' has {each!r}; write a column, or a column and 'desc'")
        return order


class CassandraSink(OfCassandra, SinkOptions):
    """Rows of a table, written by their primary key: a row that is written again is the same row.

    Only the columns that the rows have are written; a null empties its column unless `nulls: keep`. With `timestamp`
    Cassandra itself keeps what is newest, whatever order rows and batches come in; without, the last batch wins, and
    of several rows of one key in one batch the greatest.
    """

    kind: ClassVar[str] = "cassandra"
    modes: ClassVar[frozenset[str]] = frozenset({"append", "update"})
    upserts: ClassVar[bool] = True
    promise: ClassVar[str] = (
        "idempotent: rows are upserted by primary key, so a batch that is replayed after a crash changes nothing"
    )

    hosts: str = Field(default=EMBEDDED, min_length=1, description="Comma-separated host:port list, or 'embedded'.")
    table: str = Field(pattern=_TABLE, description="The table, as keyspace.table.")
    consistency: Consistency = Field(default="LOCAL_QUORUM", description="How many replicas must have a write.")
    ttl: Duration | None = Field(default=None, description="How long a row lives after it was written.")
    timestamp: str | None = Field(
        default=None, min_length=1, description="The event-time column that decides which write is newest."
    )
    nulls: Literal["write", "keep"] = Field(
        default="write", description="Whether a null empties its column, or keeps what is there."
    )
    delete_when: str | None = Field(
        default=None, min_length=1, description="The boolean column that says that the row is to be deleted."
    )
    create: _Create | None = Field(
        default=None, description="Make keyspace and table if they are not there: {key: [column]}."
    )
    user: str = Field(default="", description="Who writes, if Cassandra wants to know.")
    password: SecretText = Field(default="", repr=False, description="The user's password.")

    _found: Table | None = PrivateAttr(default=None)
    _session_number: int = PrivateAttr(default_factory=SESSIONS.__next__)
    _check_options = field_validator("options")(refuse_ours)

    @field_validator("create", mode="before")
    @classmethod
    def _has_a_key(cls, create: object) -> object:
        if create is True:
            raise ValueError("'create' needs the key of the table; write 'create: {key: [column]}'")
        return None if create is False else create

    @model_validator(mode="after")
    def _hangs_together(self) -> Self:
        if self.ttl is not None and seconds(self.ttl) < 1:
            raise ValueError(f"'ttl' is {self.ttl!r}; Cassandra counts in seconds, so at least '1 second'")
        if self.nulls == "keep" and self.delete_when:
            raise ValueError(
                "'nulls: keep' and 'delete_when' contradict each other: what a deleted row had is not kept"
            )
        if self.consistency == "ANY" and self.delete_when:
            raise ValueError("'consistency: ANY' does not promise that a delete is seen; use LOCAL_QUORUM")
        return self

    def preflight(self, wait_seconds: float, say: Callable[[str], None]) -> None:
        """An error in our words if no node answers, the user is refused, or the table is not there."""
        with self.access.session(wait_seconds, say) as session:
            if self.create is None:
                self._find(session)

    def check_columns(self, schema: StructType, mode: str) -> None:  # noqa: ARG002
        """The columns that options name are there."""
        self._require_own_columns(schema)

    def fit(self, spark: SparkSession, schema: StructType, mode: str) -> None:  # noqa: ARG002
        """Make the table if asked; an error names every column that it cannot take."""
        from pyspark.sql.types import StructType

        with self.access.session() as session:
            self._require_own_columns(schema)
            aside = (self.delete_when,)
            written = StructType([field for field in schema if field.name not in aside])
            if self.create is not None:
                self._plan.make(session, self.table, written)
            table = self._find(session)
        if self.timestamp is not None and self.timestamp not in table.columns:
            # Only the time of the write comes from it.
            written = StructType([field for field in written if field.name != self.timestamp])
        problems = misfits(table, written) + self._wrong_key(table)
        if problems:
            raise BuildError("\n  ".join([f"table {self.table} does not fit the rows:", *problems]))
        load(spark, self.spark_access())
        self._found = table

    def write_batch(self, rows: DataFrame, batch: Batch) -> None:
        """Upsert the batch, and delete what it says; waits for a cluster that is away for a while."""
        from penstock.connectors.cassandra._write import Write, patiently

        if self._found is None:
            raise PenstockError(f"table {self.table} was not looked at; call 'fit' before the first batch")
        table = self._found

        def write() -> None:
            try:
                Write(self.access, table, self.spark_access(), **self._how()).write(rows)
            except Exception:
                self._session_number = next(SESSIONS)
                raise

        patiently(write, self.access, _stopped(rows, batch))

    def _how(self) -> dict[str, Any]:
        ttl_seconds = int(seconds(self.ttl)) if self.ttl else None
        return {
            "timestamp": self.timestamp,
            "delete_when": self.delete_when,
            "keep_nulls": self.nulls == "keep",
            "ttl_seconds": ttl_seconds,
        }

    @property
    def _plan(self) -> Plan:
        assert self.create is not None
        return Plan(self.create.key, self.create.order, self.create.replication)

    def _find(self, session: Any) -> Table:
        fix = "create it first, or let 'create: {key: [column]}' do it"
        return cassandra_table.find(session, self.hosts, self.table, fix)

    def _wrong_key(self, table: Table) -> list[str]:
        if self.create is None:
            return []
        plan = self._plan
        if (table.partition_key, table.clustering_key) == (plan.key, plan.clustering()):
            return []
        found = f"(({', '.join(table.partition_key)}){''.join(f', {name}' for name in table.clustering_key)})"
        return [f"its primary key is {found}, not what 'create' says; correct 'create', or drop the table"]

    def _require_own_columns(self, schema: StructType) -> None:
        kinds = {field.name: field.dataType.typeName() for field in schema}
        for option, name, kind in (
            ("timestamp", self.timestamp, "timestamp"),
            ("delete_when", self.delete_when, "boolean"),
        ):
            if name is not None and kinds.get(name) != kind:
                found = f"is {kinds[name]}" if name in kinds else "is no column of the rows"
                raise BuildError(f"{option!r} is {name!r}, which {found}; name a column of type {kind}")


def _stopped(rows: DataFrame, batch: Batch) -> Callable[[], bool]:
    """Whether the query of a batch has been told to stop; outside of a query nothing has."""
    streams = rows.sparkSession.streams
    query = next((each for each in streams.active if each.id == batch.query), None)
    return (lambda: not query.isActive) if query is not None else (lambda: False)
