"""Delta tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from penstock.connector import Batch, Fact, PrintStatus, SinkOptions, SourceOptions, Writer
from penstock.connectors._table_schema import (
    SchemaDiff,
    TableColumn,
    describe_replay,
    one_per_key,
    require_columns,
    widens,
)
from penstock.errors import BuildError
from penstock.options import Duration, Names, Options, parse_time, seconds
from penstock.spark import column, name_types
from penstock.spark.delta import DeltaTable
from penstock.spark.internals import clone_session, move_to_session
from penstock.text import join_words

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType
    from typing_extensions import Self

_SESSION = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # Delta reads its log in 50 tasks for every commit, which costs a small batch seconds.
    "spark.databricks.delta.snapshotPartitions": "2",
    # Delta writes a checkpoint of the table every 10 commits by default, which takes as long as several batches.
    "spark.databricks.delta.properties.defaults.checkpointInterval": "100",
}
# VACUUM lists folders with 10,000 tasks by default; 16 are enough here.
_VACUUM_TASKS = {"spark.sql.sources.parallelPartitionDiscovery.parallelism": "16"}
_TRANSACTION = "spark.databricks.delta.write"
_MIN_VACUUM_HOURS = 168.0


def _moment(text: str) -> str:
    try:
        return parse_time(text).strftime("%Y-%m-%d %H:%M:%S.%f")
    except ValueError:
        raise ValueError(f"{text!r} is not a version or a time like '2024-05-01 12:00:00'") from None


def _size(text: str) -> str:
    if not re.fullmatch(r"[1-9]\d* ?[KMG]B", text.strip()):
        raise ValueError(f"{text!r} is not a size; write a number and KB, MB or GB, like '128 MB'")
    return text.strip()


Moment = Annotated[str, AfterValidator(_moment)]
Version = Annotated[int, Field(ge=0)]
Batches = Annotated[str, Field(pattern=r"^[1-9]\d* batch(es)?$")]


class DeltaSource(SourceOptions):
    """Rows added to a Delta table, or the whole table as a static one; replayable."""

    kind: ClassVar[str] = "delta"
    jars: ClassVar[tuple[str, ...]] = ("delta",)
    session: ClassVar[Mapping[str, str]] = _SESSION
    paths: ClassVar[tuple[str, ...]] = ("path",)

    path: str = Field(min_length=1, description="The folder of the table.")
    start: Literal["earliest", "latest"] | Version | Moment = Field(
        default="earliest",
        description="Where a new query begins: earliest (all that is there), latest, a version or a time.",
    )
    as_of: Version | Moment | None = Field(
        default=None, description="Of a static table: the version or the time to read."
    )
    files_per_trigger: int | None = Field(default=None, ge=1, description="Maximum files in one batch.")
    bytes_per_trigger: int | None = Field(default=None, ge=1, description="Approximate maximum bytes in one batch.")
    on_change: Literal["fail", "ignore_deletes", "skip", "resend"] = Field(
        default="fail",
        description="When rows are deleted or updated: stop, ignore deletes of whole partitions, skip every "
        "such commit, or send all rows of the rewritten files again.",
    )
    change_feed: bool = Field(
        default=False, description="Read every change of a table that records them, with _change_type."
    )

    @model_validator(mode="after")
    def _check_combination(self) -> Self:
        if self.change_feed and self.on_change != "fail":
            raise ValueError("'change_feed' has every change; take 'on_change' out")
        return self

    def probe(self, wait_seconds: float, print_status: PrintStatus) -> Iterator[Fact]:  # noqa: ARG002
        """Whether a local folder is a Delta table."""
        if "://" not in self.path and not Path(self.path, "_delta_log").is_dir():
            raise BuildError(f"there is no Delta table in {self.path}; write it first, or correct 'path'")
        yield Fact("table", self.path)

    def explain(self, failure: str) -> str | None:
        """Rows of the table that were deleted or updated."""
        if "DELTA_SOURCE_TABLE_IGNORE_CHANGES" not in failure and "DELTA_SOURCE_IGNORE_DELETE" not in failure:
            return None
        fix = "'on_change: skip' skips it, 'on_change: resend' sends the rewritten files again"
        return f"a commit to the table in {self.path} deleted or updated rows, and a stream has only new ones; {fix}"

    @property
    def on_reset(self) -> str:
        """By `start`."""
        if self.start == "earliest":
            return "is read from its first version" if self.change_feed else "is read whole, then what is added to it"
        if self.start == "latest":
            return "is read from then on: what it holds already is skipped"
        return f"is read from {'version ' if isinstance(self.start, int) else ''}{self.start} on"

    @property
    def spark_description(self) -> tuple[str, ...]:
        """The last part of the path."""
        return (self.path.rstrip("/").rpartition("/")[2],)

    def read(self, spark: SparkSession) -> DataFrame:
        """The table's columns; for a change feed also _change_type, _commit_version and _commit_timestamp."""
        if self.as_of is not None:
            raise BuildError("'as_of' is for static tables; add 'static: true', or use 'start'")
        options = {
            "maxFilesPerTrigger": self.files_per_trigger,
            "maxBytesPerTrigger": self.bytes_per_trigger,
            "readChangeFeed": "true" if self.change_feed else None,
            **self._start(),
            **self._on_change(),
        }
        given = {key: str(value) for key, value in options.items() if value is not None}
        return spark.readStream.format("delta").options(**given).options(**self.spark_options).load(self.path)

    def read_static(self, spark: SparkSession) -> DataFrame:
        """The table as it is now, or was at `as_of`."""
        streaming = ("start", "files_per_trigger", "bytes_per_trigger", "on_change", "change_feed")
        given = [f"'{name}'" for name in streaming if name in self.model_fields_set]
        if given:
            raise BuildError(f"{join_words(given, 'and')} cannot be used with a static table; take them out")
        reader = spark.read.format("delta").options(**self.spark_options)
        if self.as_of is not None:
            reader = reader.option("versionAsOf" if isinstance(self.as_of, int) else "timestampAsOf", self.as_of)
        return reader.load(self.path)

    @property
    def tells_changes(self) -> bool:
        """The log of the table can be listed."""
        return True

    def version(self) -> object:
        """The number of the newest commit."""
        import fsspec

        system, path = fsspec.url_to_fs(f"{self.path}/_delta_log")
        names = (name.rsplit("/", 1)[-1] for name in system.ls(path, detail=False, refresh=True))
        return max((name for name in names if re.fullmatch(r"\d{20}\.json", name)), default="")

    def _start(self) -> dict[str, str]:
        if self.start == "earliest":
            return {"startingVersion": "0"} if self.change_feed else {}
        if self.start == "latest" or isinstance(self.start, int):
            return {"startingVersion": str(self.start)}
        return {"startingTimestamp": self.start}

    def _on_change(self) -> dict[str, str]:
        names = {"ignore_deletes": "ignoreDeletes", "skip": "skipChangeCommits", "resend": "ignoreChanges"}
        return {names[self.on_change]: "true"} if self.on_change in names else {}


class Compact(Options):
    """When small files are compacted, and how long replaced ones are kept."""

    every: Batches | Duration = Field(
        description="After so many batches, like '100 batches', or so much time, like '1 hour'."
    )
    vacuum: Duration | None = Field(
        default=None, description="Then delete files that were removed from the table this long ago; 7 days or more."
    )

    @field_validator("vacuum")
    @classmethod
    def _is_long_enough(cls, text: str | None) -> str | None:
        if text and seconds(text) < _MIN_VACUUM_HOURS * 3600:
            raise ValueError(f"'vacuum: {text}' could delete files that are still being read; use '7 days' or more")
        return text

    @property
    def batches(self) -> int | None:
        """The number of batches; None for an interval of time."""
        return int(self.every.split()[0]) if "batch" in self.every else None


class DeltaSink(SinkOptions):
    """A Delta table; exactly-once: every batch is one commit that carries its number.

    Without `key` rows are appended. With it each row replaces the one of the same key: `update` needs that.
    """

    kind: ClassVar[str] = "delta"
    jars: ClassVar[tuple[str, ...]] = ("delta",)
    session: ClassVar[Mapping[str, str]] = _SESSION
    paths: ClassVar[tuple[str, ...]] = ("path",)
    promise: ClassVar[str] = "exactly-once: a batch is one commit with its number, and a replayed one changes nothing"

    path: str = Field(min_length=1, description="The folder of the table; created if there is none.")
    partition_by: Names = Field(default=(), description="Columns to partition by.")
    key: Names = Field(default=(), description="Columns that identify a row; needed for mode update.")
    latest_by: str | None = Field(
        default=None, description="With `key`: of several rows with one key, keep the one with the greatest value."
    )
    schema_: Literal["add", "ignore", "fail"] = Field(
        default="fail",
        alias="schema",
        description="When rows and table have different columns: add them to the table, ignore them, or stop.",
    )
    target_file_size: Annotated[str, AfterValidator(_size)] | None = Field(
        default=None, description="Approximate maximum size of one file, like '128 MB'."
    )
    optimize_write: bool = Field(default=True, description="Write one file per partition in each batch.")
    compact: Compact | None = Field(default=None, description="When to compact small files.")

    @model_validator(mode="after")
    def _check_combination(self) -> Self:
        if self.latest_by and not self.key:
            raise ValueError("'latest_by' needs 'key'")
        return self

    def refuses_mode(self, mode: str) -> str | None:
        """Why these options cannot write a mode."""
        if mode == "update" and not self.key:
            return "mode update replaces rows, and a delta sink finds them by 'key'; add 'key: [...]'"
        if mode == "complete" and self.key:
            return "mode complete replaces the whole table; take 'key' out, or use mode update"
        return None

    def check_columns(self, columns: Mapping[str, str], mode: str) -> None:
        """The mode is supported, and the columns that options name exist."""
        problem = self.refuses_mode(mode)
        if problem:
            raise BuildError(problem)
        named = {"partition_by": self.partition_by, "key": self.key, "latest_by": filter(None, [self.latest_by])}
        for option, names in named.items():
            require_columns(columns, option, names)

    @property
    def destination(self) -> tuple[str, ...]:
        """The folder of the table."""
        return ("path", self.path)

    def on_replay(self, mode: str) -> str:
        """By mode and key."""
        return describe_replay(mode, self.key, self.latest_by)

    def open(self, spark: SparkSession, schema: StructType, mode: str) -> Writer:
        """Create the table if there is none; add columns, or name those that do not match."""
        self.check_columns(name_types(schema), mode)
        table = DeltaTable(spark, self.path)
        if not table.exists:
            table.create(schema, self.partition_by, self.spark_options)
            return _Commits(self, spark)
        self._check_partitions(table)
        diff = SchemaDiff.compare(schema, _columns(table))
        missing = diff.missing if self.schema_ == "fail" else [each for each in diff.missing if each.required]
        diff.refuse(
            f"the table in {self.path}",
            missing=missing,
            extra=self.schema_ == "fail",
            fix="change what the sink reads, or set 'schema' to add or ignore other columns"
            if self.schema_ == "fail"
            else "change what the sink reads, or the table",
        )
        if self.schema_ == "add" and diff.extra:
            table.create(schema, (), self.spark_options)
        return _Commits(self, spark)

    def _check_partitions(self, table: DeltaTable) -> None:
        found = table.partition_columns
        if self.partition_by and found != self.partition_by:
            says = f"the table in {self.path} is partitioned by {join_words(found, 'and')}"
            raise BuildError(f"{says}, not by {join_words(self.partition_by, 'and')}; correct 'partition_by' or 'path'")


@dataclass
class _Commits(Writer):
    """Commits each batch once, with its number; in a separate session, because targets are written in parallel."""

    sink: DeltaSink
    start_session: SparkSession
    _spark: SparkSession | None = None
    _table: DeltaTable | None = None

    def write(self, rows: DataFrame, batch: Batch) -> None:
        """Commit the batch unless the table has it already; then compact, if that is due."""
        sink, spark, table = self.sink, *self._open_table(rows)
        _set(spark, self._settings(batch))
        matched = _match_columns(move_to_session(rows, spark), table.schema)
        if sink.key and batch.mode != "complete":
            table.merge(one_per_key(matched, sink.key, sink.latest_by), sink.key, sink.latest_by)
        else:
            mode = "overwrite" if batch.mode == "complete" else "append"
            table.commit(matched, mode, _writer(batch), batch.number, sink.spark_options)
        table.sync()
        if sink.compact and self._compact(sink.compact, spark, table, batch):
            table.sync()

    def last_batch(self, batch: Batch) -> int | None:
        """The transaction version in the table's log."""
        return DeltaTable(self.start_session, self.sink.path).last_batch(_writer(batch))

    def _open_table(self, rows: DataFrame) -> tuple[SparkSession, DeltaTable]:
        if self._spark is None or self._table is None:
            # Cloned from the batch's session, which has the query's settings; only once, because clones are freed late.
            self._spark = clone_session(rows.sparkSession)
            self._table = DeltaTable(self._spark, self.sink.path)
        return self._spark, self._table

    def _settings(self, batch: Batch) -> dict[str, str | None]:
        return {
            f"{_TRANSACTION}.txnAppId": _writer(batch),
            f"{_TRANSACTION}.txnVersion": str(batch.number),
            "spark.databricks.delta.optimizeWrite.enabled": str(self.sink.optimize_write).lower(),
            **({"spark.databricks.delta.optimizeWrite.binSize": self._spark_size} if self._spark_size else {}),
        }

    def _compact(self, when: Compact, spark: SparkSession, table: DeltaTable, batch: Batch) -> bool:
        # After the commit, in the batch's thread: never concurrently with a write of this sink.
        if when.batches:
            is_due = (batch.number + 1) % when.batches == 0
        else:
            is_due = table.seconds_since_compaction() >= seconds(when.every)
        if not is_due:
            return False
        sizes = ("maxFileSize", "minFileSize") if self._spark_size else ()
        settings = {f"spark.databricks.delta.optimize.{name}": str(self._bytes) for name in sizes}
        no_transaction = {f"{_TRANSACTION}.txnAppId": None, f"{_TRANSACTION}.txnVersion": None}
        _set(spark, settings | no_transaction | _VACUUM_TASKS)
        table.compact()
        if when.vacuum:
            table.vacuum(seconds(when.vacuum) / 3600)
        return True

    @property
    def _spark_size(self) -> str:
        return (self.sink.target_file_size or "").replace(" ", "").removesuffix("B").lower()

    @property
    def _bytes(self) -> int:
        return int(self._spark_size[:-1]) * {"k": 2**10, "m": 2**20, "g": 2**30}[self._spark_size[-1]]


def _set(spark: SparkSession, settings: Mapping[str, str | None]) -> None:
    for name, value in settings.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)


def _columns(table: DeltaTable) -> list[TableColumn]:
    """The table's columns, to compare rows with."""
    return [
        TableColumn(
            field.name,
            field.dataType.simpleString(),
            # Delta generates these.
            required=not field.nullable and not any(key.startswith("delta.") for key in field.metadata),
            takes=lambda found, wanted=field.dataType: widens(found, wanted),  # type: ignore[misc]
        )
        for field in table.schema
    ]


def _writer(batch: Batch) -> str:
    return f"{batch.writer}:{batch.query}"


def _match_columns(rows: DataFrame, schema: StructType) -> DataFrame:
    """The rows' columns that the table has, with its types and spelling."""
    ours = {name.lower(): name for name in rows.columns}
    both = [field for field in schema if field.name.lower() in ours]
    return rows.select(*(column(ours[field.name.lower()]).cast(field.dataType).alias(field.name) for field in both))
