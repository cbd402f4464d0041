"""Tables of Cassandra: rows upserted by key, small tables beside the streams, keys looked up in large ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from penstock.connector import Batch, Fact, LookupRequest, PrintStatus, SinkOptions, SourceOptions, Writer
from penstock.connectors.cassandra import _table as cassandra_table
from penstock.connectors.cassandra._common import SESSIONS, CassandraOptions, load
from penstock.connectors.cassandra._table import Plan, Table, misfits
from penstock.errors import BuildError
from penstock.options import Duration, Names, Options, seconds
from penstock.spark.columns import column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType
    from typing_extensions import Self


class CassandraSource(CassandraOptions, SourceOptions):
    """A table beside the streams: read whole with `static`, or key by key by a step `lookup`."""

    kind: ClassVar[str] = "cassandra"
    promise: ClassVar[str] = "a table, not a stream: a replayed batch sees it as it is then"

    schema_: str | None = Field(
        default=None, alias="schema", description="Columns to read, as 'name type, name type'; all unless given."
    )

    def probe(self, wait_seconds: float, print_status: PrintStatus) -> Iterator[Fact]:
        """Whether a node answers, accepts the user, and has the table."""
        with self.access.session(wait_seconds, print_status) as session:
            cassandra_table.find(session, self.hosts, self.table)
        yield Fact("table", self.table)

    def read_static(self, spark: SparkSession) -> DataFrame:
        """The declared columns, or all, of every row."""
        from pyspark.sql.types import StructType

        if self.schema_ is None:
            return load(spark, self.spark_access(next(SESSIONS)))
        declared: Any = StructType.fromDDL(self.schema_)
        self._require(declared)
        rows = load(spark, self.spark_access(next(SESSIONS)))
        return rows.select(*(column(each.name).cast(each.dataType).alias(each.name) for each in declared))

    def look_up(self, rows: DataFrame, lookup: LookupRequest) -> DataFrame:
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


class CassandraSink(CassandraOptions, SinkOptions):
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

    def probe(self, wait_seconds: float, print_status: PrintStatus) -> Iterator[Fact]:
        """Whether a node answers, accepts the user, and has the table unless it is to be created."""
        with self.access.session(wait_seconds, print_status) as session:
            if self.create is None:
                self.find(session)
        yield Fact("table", self.table)

    def check_columns(self, schema: StructType, mode: str) -> None:  # noqa: ARG002
        """The columns that options name are there."""
        self._require_own_columns(schema)

    def open(self, spark: SparkSession, schema: StructType, mode: str) -> Writer:  # noqa: ARG002
        """Create the table if asked; an error names every column that it cannot take."""
        from pyspark.sql.types import StructType

        with self.access.session() as session:
            self._require_own_columns(schema)
            aside = (self.delete_when,)
            written = StructType([field for field in schema if field.name not in aside])
            if self.create is not None:
                self._plan.make(session, self.table, written)
            table = self.find(session)
        if self.timestamp is not None and self.timestamp not in table.columns:
            # Only the time of the write comes from it.
            written = StructType([field for field in written if field.name != self.timestamp])
        problems = misfits(table, written) + self._wrong_key(table)
        if problems:
            raise BuildError("\n  ".join([f"table {self.table} does not fit the rows:", *problems]))
        writer = _Upserts(self, table)
        load(spark, self.spark_access(writer.session))
        return writer

    @property
    def destination(self) -> tuple[str, ...]:
        """The table."""
        return ("table", self.table, self.hosts)

    @property
    def _plan(self) -> Plan:
        assert self.create is not None
        return Plan(self.create.key, self.create.order, self.create.replication)

    def find(self, session: Any) -> Table:
        """The table as Cassandra describes it."""
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


@dataclass
class _Upserts(Writer):
    """Upserts each batch by primary key."""

    sink: CassandraSink
    table: Table
    session: int = field(default_factory=SESSIONS.__next__)

    def write(self, rows: DataFrame, batch: Batch) -> None:
        """Upsert the batch, and delete what it says; waits for a cluster that is away for a while."""
        from penstock.connectors.cassandra._write import Write, patiently

        sink = self.sink

        def write() -> None:
            try:
                Write(
                    sink.access,
                    self.table,
                    sink.spark_access(self.session),
                    timestamp=sink.timestamp,
                    delete_when=sink.delete_when,
                    keep_nulls=sink.nulls == "keep",
                    ttl_seconds=int(seconds(sink.ttl)) if sink.ttl else None,
                ).write(rows)
            except Exception:
                self.session = next(SESSIONS)
                raise

        patiently(write, sink.access, _stopped(rows, batch))


def _stopped(rows: DataFrame, batch: Batch) -> Callable[[], bool]:
    """Whether the query of a batch has been told to stop; outside of a query nothing has."""
    streams = rows.sparkSession.streams
    query = next((each for each in streams.active if each.id == batch.query), None)
    return (lambda: not query.isActive) if query is not None else (lambda: False)
