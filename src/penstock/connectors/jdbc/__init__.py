"""Tables of databases, through their JDBC drivers."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, model_validator

from penstock.connector import Batch, ConnectorOptions, Fact, PrintStatus, SinkOptions, SourceOptions, Writer
from penstock.connectors._table_schema import one_per_key, refuse_null_keys, require_columns
from penstock.connectors.jdbc._connection import Connection, Name, connected
from penstock.connectors.jdbc._databases import Database, database
from penstock.connectors.jdbc._tables import ROW, Staged, Target
from penstock.errors import BuildError, UnreachableError
from penstock.options import Names, SecretText
from penstock.spark.internals import active_jvm, jvm
from penstock.text import Waiting

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType
    from typing_extensions import Self

_ISOLATION = {"read committed": 2, "repeatable read": 4, "serializable": 8}
_KNOCK_SECONDS = 2.0


def _url(text: str) -> str:
    if not text.startswith("jdbc:"):
        raise ValueError("'url' does not begin with 'jdbc:'; write it like 'jdbc:postgresql://host:5432/name'")
    if text.startswith("jdbc:sqlite::memory:") or text == "jdbc:sqlite:":
        raise ValueError("a database in memory ends with its connection; name a file, like 'jdbc:sqlite:shop.db'")
    return text


def _table(text: str) -> str:
    Name.of(text)
    return text


Url = Annotated[str, AfterValidator(_url)]
Table = Annotated[str, AfterValidator(_table)]


class JdbcOptions(ConnectorOptions):
    """Which database, and how it is opened."""

    jars: ClassVar[tuple[str, ...]] = ("postgresql", "sqlite")

    url: Url = Field(repr=False, description="The database, like 'jdbc:postgresql://host:5432/name'.")
    user: str | None = Field(default=None, description="The user.")
    password: SecretText | None = Field(default=None, repr=False, description="Write ${env:NAME} or ${file:path}.")
    driver: str | None = Field(default=None, description="The class of the driver, if it does not name itself.")

    @property
    def database(self) -> Database:
        """What is known of the database."""
        return database(self.url)

    @property
    def jar_groups(self) -> tuple[str, ...]:
        """The driver that the URL names, if it is one of ours."""
        return self.database.jars

    @property
    def address(self) -> str:
        """The database for messages: a URL can hold a password."""
        return re.sub(r"//[^/@]*@", "//", re.split(r"[?;]", self.url, maxsplit=1)[0])

    def with_absolute_paths(self, folder: Path) -> Self:
        """The same with the file of SQLite beside the pipeline's."""
        prefix, found, path = self.url.partition("jdbc:sqlite:")
        if prefix or not found or path.startswith("file:") or Path(path.split("?")[0]).is_absolute():
            return self
        return self.model_copy(update={"url": f"{found}{folder.resolve() / path}"})

    def probe(self, wait_seconds: float, print_status: PrintStatus) -> Iterator[Fact]:
        """Whether PostgreSQL answers in this time."""
        match = re.match(r"jdbc:postgresql://(?:[^/@]*@)?([^/:?,]+)(?::(\d+))?(?=[/?]|$)", self.url)
        if match:
            _wait_for(match[1], int(match[2] or 5432), wait_seconds, print_status)
            yield Fact("connection", f"{match[1]}:{match[2] or 5432} answers")

    @property
    def connection_options(self) -> dict[str, str]:
        """What Spark's own connections are opened with, and ours."""
        named = {"url": self.url, "user": self.user, "password": self.password, "driver": self.driver}
        given = {key: str(value) for key, value in named.items() if value is not None}
        return {**self.database.properties, **given, **self.spark_options}

    @contextmanager
    def connected(self, java: Any) -> Iterator[Connection]:
        """A connection of Spark's driver."""
        # Spark wants to know of a table too, and does not look at it.
        with connected(java, {**self.connection_options, "dbtable": "t"}, self.address) as connection:
            yield connection


class JdbcSource(JdbcOptions, SourceOptions):
    """A table or a query of a database, as a static table beside the streams."""

    kind: ClassVar[str] = "jdbc"
    promise: ClassVar[str] = "a table beside the streams: as it is when it is read"

    table: Table | None = Field(default=None, description="The table, or schema.table.")
    query: str | None = Field(default=None, min_length=1, description="A SELECT in the database's own SQL.")
    fetch_size: int = Field(default=1000, ge=1, description="How many rows come over at once.")
    partition_column: str | None = Field(
        default=None, description="Read in parallel, cut by this column: a number, a date or a time."
    )
    lower_bound: str | int | None = Field(default=None, description="Where the first cut of partition_column is.")
    upper_bound: str | int | None = Field(default=None, description="Where the last cut of partition_column is.")
    partitions: int | None = Field(default=None, ge=2, description="Into how many parts.")
    version_query: str | None = Field(
        default=None, description="A SELECT of one value that differs when the table has changed."
    )

    @model_validator(mode="after")
    def _hangs_together(self) -> Self:
        if bool(self.table) == bool(self.query):
            raise ValueError("give one of 'table' and 'query'")
        cut = [self.partition_column, self.lower_bound, self.upper_bound, self.partitions]
        if any(each is not None for each in cut) and any(each is None for each in cut):
            raise ValueError("'partition_column', 'lower_bound', 'upper_bound' and 'partitions' belong together")
        return self

    @property
    def tells_changes(self) -> bool:
        """A database tells that a table has changed only if `version_query` asks it."""
        return self.version_query is not None

    def read_static(self, spark: SparkSession) -> DataFrame:
        """The columns of the table or of the query."""
        with self.connected(jvm(spark)) as connection:
            selection = self._selection(connection)
            known = self.database.read_options(connection, selection)
        cut = {
            "partitionColumn": self.partition_column,
            "lowerBound": self.lower_bound,
            "upperBound": self.upper_bound,
            "numPartitions": self.partitions,
        }
        options = {"dbtable": selection, "fetchsize": self.fetch_size, **known, **cut, **self.connection_options}
        given = {key: str(value) for key, value in options.items() if value is not None}
        return spark.read.format("jdbc").options(**given).load()

    def version(self) -> object:
        """What `version_query` says."""
        if self.version_query is None:
            raise BuildError("a database does not tell when a table has changed; set 'version_query' or a duration")
        with self.connected(active_jvm()) as connection:
            return connection.first(self.version_query)

    def _selection(self, connection: Connection) -> str:
        if self.query:
            return f"({self.query.strip().rstrip(';')}) penstock_rows"
        table = connection.find(Name.of(self.table or ""))
        if table is None:
            raise BuildError(f"there is no table {self.table} in {self.address}; create it, or correct 'table'")
        return connection.quoted(table)


class JdbcSink(JdbcOptions, SinkOptions):
    """A table of a database; exactly-once: a batch and its number are written in one transaction.

    Executors write into a table aside, which is moved over in that transaction. Without `key` rows are added; with it
    each row replaces the one of the same key: `update` needs that. Numbers are kept in the table penstock_batches.
    """

    kind: ClassVar[str] = "jdbc"
    promise: ClassVar[str] = "exactly-once: a batch and its number are written in one transaction"

    table: Table = Field(description="The table, or schema.table.")
    key: Names = Field(default=(), description="Columns that say which row is replaced; needed for mode update.")
    latest_by: str | None = Field(
        default=None, description="With `key`: of rows of one key, the one with the greatest value stays."
    )
    create: bool = Field(default=False, description="Make the table if there is none.")
    schema_: Literal["ignore", "fail"] = Field(
        default="fail",
        alias="schema",
        description="When rows and table have other columns: leave them out, or stop.",
    )
    batch_size: int = Field(default=1000, ge=1, description="How many rows go over at once.")
    connections: int = Field(default=4, ge=1, description="Most connections that write at once.")
    isolation: Literal["read committed", "repeatable read", "serializable"] | None = Field(
        default=None, description="Of the transaction; by default the database's own."
    )

    @model_validator(mode="after")
    def _hangs_together(self) -> Self:
        if self.latest_by and not self.key:
            raise ValueError("'latest_by' needs 'key'")
        return self

    def refuses_mode(self, mode: str) -> str | None:
        """Why these options cannot write a mode."""
        if mode == "update" and not self.key:
            return "mode update replaces rows, and a jdbc sink finds them by 'key'; add 'key: [...]'"
        if self.key and mode != "complete" and not self.database.upserts:
            return f"replacing rows by 'key' is known for PostgreSQL and SQLite, not for {self.address}; take 'key' out"
        if self.create and not self.database.types:
            return f"the types of {self.address} are not known; create the table yourself and take 'create' out"
        return None

    def check_columns(self, schema: StructType, mode: str) -> None:
        """The mode can be written, and the columns that options name are there."""
        problem = self.refuses_mode(mode)
        if problem:
            raise BuildError(problem)
        require_columns(schema, "key", self.key)
        require_columns(schema, "latest_by", filter(None, [self.latest_by]))

    @property
    def destination(self) -> tuple[str, ...]:
        """The table."""
        return ("table", self.table, self.url)

    def open(self, spark: SparkSession, schema: StructType, mode: str) -> Writer:
        """Create what is asked for; name every column that does not match, and a key that is not unique."""
        self.check_columns(schema, mode)
        master = str(spark.sparkContext.master)
        if self.database.one_writer and not re.match(r"local(\[|$)", master):
            says = f"{self.address} is a file of one machine, and Spark runs on {master}"
            raise BuildError(f"{says}; use another database, or a local master")
        with self.connected(jvm(spark)) as connection:
            target = self.target(connection)
            if self.create:
                target.create(schema, self.key)
            target.check(schema, self.key if mode != "complete" else (), strict=self.schema_ == "fail")
            target.prepare()
        return _TableWriter(self)

    def target(self, connection: Connection) -> Target:
        """The table, through a connection."""
        return Target(connection, self.database, self.table, self.address)


@dataclass(frozen=True)
class _TableWriter(Writer):
    """Writes each batch and its number in one transaction."""

    sink: JdbcSink

    def write(self, rows: DataFrame, batch: Batch) -> None:
        """One transaction with the rows and the number; nothing if the number is there already."""
        sink = self.sink
        with sink.connected(jvm(rows.sparkSession)) as connection:
            target = sink.target(connection)
            if target.has(batch):
                return
            shaped = target.shaped(rows)
            key = target.spelled(sink.key) if batch.mode != "complete" else ()
            latest = target.spelled([sink.latest_by])[0] if sink.latest_by and key else None
            if key:
                shaped = one_per_key(refuse_null_keys(shaped, key), key, latest)
            staged = self._stage(target, shaped, batch)
            with connection.transaction(_ISOLATION[sink.isolation] if sink.isolation else None):
                target.move(staged, batch, key, latest)
            target.drop(staged.table)

    def _stage(self, target: Target, rows: DataFrame, batch: Batch) -> Staged:
        from pyspark.sql import functions as F  # noqa: N812

        sink = self.sink
        table, mode = target.stage(batch, rows.columns)
        written = sink.database.as_written(rows).withColumn(ROW, F.monotonically_increasing_id())
        if sink.database.one_writer:
            written = written.repartition(1)
        options = {"batchsize": sink.batch_size, "numPartitions": sink.connections, **sink.connection_options}
        writer = written.write.format("jdbc").mode(mode).options(**{key: str(each) for key, each in options.items()})
        writer.option("dbtable", target.connection.quoted(table)).save()
        return Staged(table, tuple(rows.columns))


def _wait_for(host: str, port: int, wait_seconds: float, print_status: PrintStatus) -> None:
    deadline = time.monotonic() + wait_seconds
    pause = threading.Event()
    while True:
        try:
            socket.create_connection((host, port), timeout=_KNOCK_SECONDS).close()
            return
        except OSError as error:
            left = deadline - time.monotonic()
            if left <= 0:
                says = f"no PostgreSQL answers at {host}:{port} after {wait_seconds:.0f} s ({error})"
                raise UnreachableError(f"{says}; start it, or correct 'url'") from error
            print_status(Waiting(f"waiting for PostgreSQL at {host}:{port} ({left:.0f} s left)"))
            pause.wait(min(_KNOCK_SECONDS, left))
