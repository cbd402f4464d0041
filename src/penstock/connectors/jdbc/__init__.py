"""Database tables over JDBC."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, model_validator

from penstock.connector import Batch, ConnectorOptions, Fact, PrintStatus, SinkOptions, SourceOptions, Writer
from penstock.connectors._table_schema import describe_replay, one_per_key, refuse_null_keys, require_columns
from penstock.connectors.jdbc._connection import Connection, TableName, connect
from penstock.connectors.jdbc._databases import Database, database_for
from penstock.connectors.jdbc._tables import ROW_COLUMN, SinkTable, StagedBatch
from penstock.errors import BuildError, UnreachableError
from penstock.options import Names, SecretText
from penstock.spark import name_types
from penstock.spark.internals import active_jvm, jvm
from penstock.text import Waiting

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType
    from typing_extensions import Self

_ISOLATION = {"read committed": 2, "repeatable read": 4, "serializable": 8}
_CONNECT_SECONDS = 2.0


def _url(text: str) -> str:
    if not text.startswith("jdbc:"):
        raise ValueError("'url' does not begin with 'jdbc:'; write it like 'jdbc:postgresql://host:5432/name'")
    if text.startswith("jdbc:sqlite::memory:") or text == "jdbc:sqlite:":
        raise ValueError("a database in memory ends with its connection; name a file, like 'jdbc:sqlite:shop.db'")
    return text


def _table(text: str) -> str:
    TableName.parse(text)
    return text


Url = Annotated[str, AfterValidator(_url)]
Table = Annotated[str, AfterValidator(_table)]


class JdbcOptions(ConnectorOptions):
    """The database and its login."""

    jars: ClassVar[tuple[str, ...]] = ("postgresql", "sqlite")

    url: Url = Field(repr=False, description="The database, like 'jdbc:postgresql://host:5432/name'.")
    user: str | None = Field(default=None, description="The user.")
    password: SecretText | None = Field(default=None, repr=False, description="Write ${env:NAME} or ${file:path}.")
    driver: str | None = Field(default=None, description="The driver's class, if it does not register itself.")

    @property
    def database(self) -> Database:
        """The dialect of the database."""
        return database_for(self.url)

    @property
    def jar_groups(self) -> tuple[str, ...]:
        """The jars of the driver, if Penstock has them."""
        return self.database.jars

    @property
    def address(self) -> str:
        """The URL for messages, without passwords."""
        return re.sub(r"//[^/@]*@", "//", re.split(r"[?;]", self.url, maxsplit=1)[0])

    def with_absolute_paths(self, folder: Path) -> Self:
        """The same options with SQLite's file absolute."""
        prefix, found, path = self.url.partition("jdbc:sqlite:")
        if prefix or not found or path.startswith("file:") or Path(path.split("?")[0]).is_absolute():
            return self
        return self.model_copy(update={"url": f"{found}{folder.resolve() / path}"})

    def probe(self, wait_seconds: float, print_status: PrintStatus) -> Iterator[Fact]:
        """Wait until PostgreSQL accepts connections."""
        match = re.match(r"jdbc:postgresql://(?:[^/@]*@)?([^/:?,]+)(?::(\d+))?(?=[/?]|$)", self.url)
        if match:
            _wait_for(match[1], int(match[2] or 5432), wait_seconds, print_status)
            yield Fact("connection", f"{match[1]}:{match[2] or 5432} answers")

    @property
    def connection_options(self) -> dict[str, str]:
        """Options of every connection, Spark's included."""
        named = {"url": self.url, "user": self.user, "password": self.password, "driver": self.driver}
        given = {key: str(value) for key, value in named.items() if value is not None}
        return {**self.database.properties, **given, **self.spark_options}

    @contextmanager
    def connect(self, java: Any) -> Iterator[Connection]:
        """A connection of Spark's driver."""
        # Spark requires 'dbtable' and does not use it here.
        with connect(java, {**self.connection_options, "dbtable": "t"}, self.address) as connection:
            yield connection


class JdbcSource(JdbcOptions, SourceOptions):
    """A table or a query of a database, as a static table."""

    kind: ClassVar[str] = "jdbc"
    promise: ClassVar[str] = "a static table: its rows at the time of reading"

    table: Table | None = Field(default=None, description="The table, or schema.table.")
    query: str | None = Field(default=None, min_length=1, description="A SELECT in the database's own SQL.")
    fetch_size: int = Field(default=1000, ge=1, description="Rows per round trip.")
    partition_column: str | None = Field(
        default=None, description="Read in parallel, split by this column: a number, a date or a time."
    )
    lower_bound: str | int | None = Field(
        default=None, description="Start of the range to split; rows below it are read too."
    )
    upper_bound: str | int | None = Field(
        default=None, description="End of the range to split; rows above it are read too."
    )
    partitions: int | None = Field(default=None, ge=2, description="Number of partitions.")
    version_query: str | None = Field(
        default=None, description="A SELECT of one value that differs when the table has changed."
    )

    @model_validator(mode="after")
    def _check_combination(self) -> Self:
        if bool(self.table) == bool(self.query):
            raise ValueError("give one of 'table' and 'query'")
        split = [self.partition_column, self.lower_bound, self.upper_bound, self.partitions]
        if any(each is not None for each in split) and any(each is None for each in split):
            raise ValueError("'partition_column', 'lower_bound', 'upper_bound' and 'partitions' belong together")
        return self

    @property
    def on_reset(self) -> str:
        """Read whole, whatever the checkpoint."""
        return "is a static table, and is read at the start"

    @property
    def tells_changes(self) -> bool:
        """Only with a `version_query`."""
        return self.version_query is not None

    def read_static(self, spark: SparkSession) -> DataFrame:
        """The columns of the table or of the query."""
        with self.connect(jvm(spark)) as connection:
            selection = self._selection(connection)
            known = self.database.read_options(connection, selection)
        split = {
            "partitionColumn": self.partition_column,
            "lowerBound": self.lower_bound,
            "upperBound": self.upper_bound,
            "numPartitions": self.partitions,
        }
        options = {"dbtable": selection, "fetchsize": self.fetch_size, **known, **split, **self.connection_options}
        given = {key: str(value) for key, value in options.items() if value is not None}
        return spark.read.format("jdbc").options(**given).load()

    def version(self) -> object:
        """The result of `version_query`."""
        if self.version_query is None:
            raise BuildError("a database does not report that a table has changed; set 'version_query' or a duration")
        with self.connect(active_jvm()) as connection:
            return connection.first(self.version_query)

    def _selection(self, connection: Connection) -> str:
        if self.query:
            return f"({self.query.strip().rstrip(';')}) penstock_rows"
        table = connection.find(TableName.parse(self.table or ""))
        if table is None:
            raise BuildError(f"there is no table {self.table} in {self.address}; create it, or correct 'table'")
        return connection.quote(table)


class JdbcSink(JdbcOptions, SinkOptions):
    """A table of a database; exactly-once: a batch and its number are written in one transaction.

    Executors write to a staging table, whose rows are moved in that transaction. Without `key` rows are added; with it
    each row replaces the one of the same key: `update` needs that. Batch numbers are in the table penstock_batches.
    """

    kind: ClassVar[str] = "jdbc"
    promise: ClassVar[str] = "exactly-once: a batch and its number are written in one transaction"

    table: Table = Field(description="The table, or schema.table.")
    key: Names = Field(default=(), description="Columns that identify a row; needed for mode update.")
    latest_by: str | None = Field(
        default=None, description="With `key`: of several rows with one key, keep the one with the greatest value."
    )
    create: bool = Field(default=False, description="Create the table if there is none.")
    schema_: Literal["ignore", "fail"] = Field(
        default="fail",
        alias="schema",
        description="When rows and table have different columns: ignore them, or stop.",
    )
    batch_size: int = Field(default=1000, ge=1, description="Rows per round trip.")
    connections: int = Field(default=4, ge=1, description="Maximum connections that write at once.")
    isolation: Literal["read committed", "repeatable read", "serializable"] | None = Field(
        default=None, description="Isolation level of the transaction; by default the database's."
    )

    @model_validator(mode="after")
    def _check_combination(self) -> Self:
        if self.latest_by and not self.key:
            raise ValueError("'latest_by' needs 'key'")
        return self

    def refuses_mode(self, mode: str) -> str | None:
        """Why these options cannot write a mode."""
        if mode == "update" and not self.key:
            return "mode update replaces rows, and a jdbc sink finds them by 'key'; add 'key: [...]'"
        if self.key and mode != "complete" and not self.database.upserts:
            says = f"replacing rows by 'key' is supported for PostgreSQL and SQLite, not for {self.address}"
            return f"{says}; take 'key' out"
        if self.create and not self.database.types:
            return f"the types of {self.address} are not known; create the table yourself and take 'create' out"
        return None

    def check_columns(self, columns: Mapping[str, str], mode: str) -> None:
        """The mode is supported, and the columns that options name exist."""
        problem = self.refuses_mode(mode)
        if problem:
            raise BuildError(problem)
        require_columns(columns, "key", self.key)
        require_columns(columns, "latest_by", filter(None, [self.latest_by]))

    @property
    def destination(self) -> tuple[str, ...]:
        """The table."""
        return ("table", self.table, self.url)

    def on_replay(self, mode: str) -> str:
        """By mode and key."""
        return describe_replay(mode, self.key, self.latest_by)

    def open(self, spark: SparkSession, schema: StructType, mode: str) -> Writer:
        """Create the tables; an error names every column that does not match, and a key that is not unique."""
        self.check_columns(name_types(schema), mode)
        master = str(spark.sparkContext.master)
        if self.database.one_writer and not re.match(r"local(\[|$)", master):
            says = f"{self.address} is a file of one machine, and Spark runs on {master}"
            raise BuildError(f"{says}; use another database, or a local master")
        with self.connect(jvm(spark)) as connection:
            target = self.target(connection)
            if self.create:
                target.create(schema, self.key)
            target.check(schema, self.key if mode != "complete" else (), strict=self.schema_ == "fail")
            target.create_batches_table()
        return _TableWriter(self, spark)

    def target(self, connection: Connection) -> SinkTable:
        """The table, seen through a connection."""
        return SinkTable(connection, self.database, self.table, self.address)


@dataclass(frozen=True)
class _TableWriter(Writer):
    """Writes each batch and its number in one transaction."""

    sink: JdbcSink
    spark: SparkSession

    def last_batch(self, batch: Batch) -> int | None:
        """The number in the table of batch numbers."""
        with self.sink.connect(jvm(self.spark)) as connection:
            return self.sink.target(connection).last_batch(batch)

    def write(self, rows: DataFrame, batch: Batch) -> None:
        """Write the rows and the number in one transaction; nothing if the number is there already."""
        sink = self.sink
        with sink.connect(jvm(rows.sparkSession)) as connection:
            target = sink.target(connection)
            if target.has_batch(batch):
                return
            selected = target.select_columns(rows)
            key = target.match_names(sink.key) if batch.mode != "complete" else ()
            latest = target.match_names([sink.latest_by])[0] if sink.latest_by and key else None
            if key:
                selected = one_per_key(refuse_null_keys(selected, key), key, latest)
            staged = self._stage(target, selected, batch)
            with connection.transaction(_ISOLATION[sink.isolation] if sink.isolation else None):
                target.move(staged, batch, key, latest)
            target.drop(staged.table)

    def _stage(self, target: SinkTable, rows: DataFrame, batch: Batch) -> StagedBatch:
        from pyspark.sql import functions as F  # noqa: N812

        sink = self.sink
        table, mode = target.stage(batch, rows.columns)
        written = sink.database.convert_for_driver(rows).withColumn(ROW_COLUMN, F.monotonically_increasing_id())
        if sink.database.one_writer:
            written = written.repartition(1)
        options = {"batchsize": sink.batch_size, "numPartitions": sink.connections, **sink.connection_options}
        writer = written.write.format("jdbc").mode(mode).options(**{key: str(each) for key, each in options.items()})
        writer.option("dbtable", target.connection.quote(table)).save()
        return StagedBatch(table, tuple(rows.columns))


def _wait_for(host: str, port: int, wait_seconds: float, print_status: PrintStatus) -> None:
    deadline = time.monotonic() + wait_seconds
    pause = threading.Event()
    while True:
        try:
            socket.create_connection((host, port), timeout=_CONNECT_SECONDS).close()
            return
        except OSError as error:
            left = deadline - time.monotonic()
            if left <= 0:
                says = f"no PostgreSQL answers at {host}:{port} after {wait_seconds:.0f} s ({error})"
                raise UnreachableError(f"{says}; start it, or correct 'url'") from error
            print_status(Waiting(f"waiting for PostgreSQL at {host}:{port} ({left:.0f} s left)"))
            pause.wait(min(_CONNECT_SECONDS, left))
