"""Cassandra tables: upserted by key, read as static tables, or looked up key by key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from penstock.connector import Batch, Fact, LookupRequest, PrintStatus, SinkOptions, SourceOptions, Writer
from penstock.connectors.cassandra import _table as cassandra_table
from penstock.connectors.cassandra._common import SESSIONS, CassandraOptions, load
from penstock.connectors.cassandra._table import Table, TablePlan, diff_schema
from penstock.errors import BuildError
from penstock.options import Duration, Names, Options, seconds
from penstock.spark import column, name_types

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType
    from typing_extensions import Self


class CassandraSource(CassandraOptions, SourceOptions):
    """A static table: read whole with `static`, or key by key by a `lookup` step."""

    kind: ClassVar[str] = "cassandra"
    promise: ClassVar[str] = "a table, not a stream: a replayed batch sees its current rows"

    schema_: str | None = Field(
        default=None, alias="schema", description="Columns to read, as 'name type, name type'; all by default."
    )

    def probe(self, wait_seconds: float, print_status: PrintStatus) -> Iterator[Fact]:
        """Check that a node answers, accepts the user, and has the table."""
        with self.access.session(wait_seconds, print_status) as session:
            cassandra_table.find(session, self.hosts, self.table)
        yield Fact("table", self.table)

    @property
    def on_reset(self) -> str:
        """Read whole or by key, whatever the checkpoint."""
        return "is a static table, and is read at the start"

    def read_static(self, spark: SparkSession) -> DataFrame:
        """All rows, with the declared columns or all."""
        from pyspark.sql.types import StructType

        if self.schema_ is None:
            return load(spark, self.spark_access(next(SESSIONS)))
        declared: Any = StructType.fromDDL(self.schema_)
        self._require(declared)
        rows = load(spark, self.spark_access(next(SESSIONS)))
        return rows.select(*(column(each.name).cast(each.dataType).alias(each.name) for each in declared))

    def look_up(self, rows: DataFrame, lookup: LookupRequest) -> DataFrame:
        """The rows joined with the table's rows of the same key."""
        from penstock.connectors.cassandra._keys import join_by_key

        with self.access.session() as session:
            table = cassandra_table.find(session, self.hosts, self.table)
        return join_by_key(rows, self.access, table, self.schema_, lookup)

    def _require(self, declared: StructType) -> None:
        with self.access.session() as session:
            table = cassandra_table.find(session, self.hosts, self.table)
        cassandra_table.require_readable(table, declared)


class _Create(Options):
    key: Names = Field(min_length=1, description="Columns of the partition key.")
    order: Names = Field(default=(), description="Columns that order the rows of a partition: [at desc].")
    replication: int | dict[str, int] = Field(
        default=1, description="Replication factor of a new keyspace, or {datacenter: 3}."
    )

    @field_validator("order")
    @classmethod
    def _is_an_order(cls, order: tuple[str, ...]) -> tuple[str, ...]:
        for each in order:
            if len(each.split()) not in (1, 2) or each.lower().split()[1:] not in ([], ["asc"], ["desc"]):
                raise ValueError(f"'order' has {each!r}; write a column, or a column and 'desc'")
        return order


class CassandraSink(CassandraOptions, SinkOptions):
    """Rows of a table, upserted by primary key.

    Only the columns that the rows have are written; a null deletes the value of its column unless `nulls: keep`. With
    `timestamp` Cassandra itself keeps the newest value, in whatever order rows and batches arrive; without, the last
    batch wins, and of several rows of one key in one batch the greatest.
    """

    kind: ClassVar[str] = "cassandra"
    modes: ClassVar[frozenset[str]] = frozenset({"append", "update"})
    upserts: ClassVar[bool] = True
    promise: ClassVar[str] = (
        "idempotent: rows are upserted by primary key, so a batch that is replayed after a crash changes nothing"
    )

    ttl: Duration | None = Field(default=None, description="How long a row lives after it is written.")
    timestamp: str | None = Field(
        default=None, min_length=1, description="The event-time column that decides which write is newest."
    )
    nulls: Literal["write", "keep"] = Field(
        default="write", description="Whether a null deletes the value of its column, or keeps it."
    )
    delete_when: str | None = Field(
        default=None, min_length=1, description="The boolean column that marks rows to delete."
    )
    create: _Create | None = Field(
        default=None, description="Create keyspace and table if they do not exist: {key: [column]}."
    )

    @field_validator("create", mode="before", json_schema_input_type=_Create | Literal[False] | None)
    @classmethod
    def _has_a_key(cls, create: object) -> object:
        if create is True:
            raise ValueError("'create' needs the key of the table; write 'create: {key: [column]}'")
        return None if create is False else create

    @model_validator(mode="after")
    def _check_combination(self) -> Self:
        if self.ttl is not None and seconds(self.ttl) < 1:
            raise ValueError(f"'ttl' is {self.ttl!r}; Cassandra counts in seconds, so at least '1 second'")
        if self.nulls == "keep" and self.delete_when:
            raise ValueError(
                "'nulls: keep' and 'delete_when' contradict each other: the values of a deleted row cannot be kept"
            )
        if self.consistency == "ANY" and self.delete_when:
            raise ValueError("'consistency: ANY' does not guarantee that a delete is seen; use LOCAL_QUORUM")
        return self

    def probe(self, wait_seconds: float, print_status: PrintStatus) -> Iterator[Fact]:
        """Check that a node answers, accepts the user, and has the table unless `create` is set."""
        with self.access.session(wait_seconds, print_status) as session:
            if self.create is None:
                self.find(session)
        yield Fact("table", self.table)

    def on_replay(self, mode: str) -> str:  # noqa: ARG002
        """Upserted again."""
        return f"replaces the rows of the same keys{', unless it has later ones' if self.timestamp else ''}"

    def check_columns(self, columns: Mapping[str, str], mode: str) -> None:  # noqa: ARG002
        """The columns that options name exist and have the right type."""
        self._require_own_columns(columns)

    def open(self, spark: SparkSession, schema: StructType, mode: str) -> Writer:  # noqa: ARG002
        """Create the table if configured; an error names every column that does not match."""
        from pyspark.sql.types import StructType

        with self.access.session() as session:
            self._require_own_columns(name_types(schema))
            written = StructType([field for field in schema if field.name != self.delete_when])
            if self.create is not None:
                self._plan.create(session, self.table, written)
            table = self.find(session)
        if self.timestamp is not None and self.timestamp not in table.columns:
            # Used only as the write time.
            written = StructType([field for field in written if field.name != self.timestamp])
        problems = diff_schema(table, written) + self._wrong_key(table)
        if problems:
            raise BuildError("\n  ".join([f"table {self.table} does not match the rows:", *problems]))
        writer = _Upserts(self, table)
        load(spark, self.spark_access(writer.session))
        return writer

    @property
    def destination(self) -> tuple[str, ...]:
        """The table."""
        return ("table", self.table, self.hosts)

    @property
    def _plan(self) -> TablePlan:
        assert self.create is not None
        return TablePlan(self.create.key, self.create.order, self.create.replication)

    def find(self, session: Any) -> Table:
        """The table as Cassandra describes it."""
        fix = "create it first, or let 'create: {key: [column]}' do it"
        return cassandra_table.find(session, self.hosts, self.table, fix)

    def _wrong_key(self, table: Table) -> list[str]:
        if self.create is None:
            return []
        plan = self._plan
        if (table.partition_key, table.clustering_key) == (plan.key, plan.clustering_columns()):
            return []
        found = f"(({', '.join(table.partition_key)}){''.join(f', {name}' for name in table.clustering_key)})"
        return [f"its primary key is {found}, not that of 'create'; correct 'create', or drop the table"]

    def _require_own_columns(self, columns: Mapping[str, str]) -> None:
        for option, name, kind in (
            ("timestamp", self.timestamp, "timestamp"),
            ("delete_when", self.delete_when, "boolean"),
        ):
            if name is not None and columns.get(name) not in (kind, ""):
                found = f"is {columns[name]}" if name in columns else "is not a column of the rows"
                raise BuildError(f"{option!r} is {name!r}, which {found}; name a column of type {kind}")


@dataclass
class _Upserts(Writer):
    """Upserts each batch by primary key."""

    sink: CassandraSink
    table: Table
    session: int = field(default_factory=SESSIONS.__next__)

    def write(self, rows: DataFrame, batch: Batch) -> None:
        """Upsert the batch and delete flagged rows; retries for a while if the cluster is unavailable."""
        from penstock.connectors.cassandra._write import TableWrite, write_with_retries

        sink = self.sink

        def write() -> None:
            try:
                TableWrite(
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

        write_with_retries(write, sink.access, _stop_check(rows, batch))


def _stop_check(rows: DataFrame, batch: Batch) -> Callable[[], bool]:
    """A function that says whether the query of a batch was stopped; never, outside of a query."""
    streams = rows.sparkSession.streams
    query = next((each for each in streams.active if each.id == batch.query), None)
    return (lambda: not query.isActive) if query is not None else (lambda: False)
