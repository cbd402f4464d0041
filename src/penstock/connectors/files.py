"""Folders of files."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, model_validator

from penstock.connector import Batch, SinkOptions, SourceOptions, Writer
from penstock.connectors._table_schema import require_columns
from penstock.errors import BuildError, UnreachableError
from penstock.options import Duration, Names, seconds
from penstock.spark import name_types
from penstock.spark.internals import HadoopFiles
from penstock.storage.files import fsync_folder, fsync_parents, fsync_tree, local_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter
    from pyspark.sql.types import StructType
    from typing_extensions import Self

Format = Literal["text", "csv", "json", "parquet", "orc", "avro"]

#: The column where Spark puts a record that it cannot parse.
CORRUPT = "_corrupt_record"
_PREVIEW_FILES = 10
#: Formats whose files have a header: an empty one was lost.
_WITH_HEADER = ("parquet", "orc", "avro")
#: How far back to look for the last batch that is there.
_LOOK_BACK = 1000


class FileSource(SourceOptions):
    """New files of a folder; replayable. A file must appear whole (write elsewhere, then move) and not change."""

    kind: ClassVar[str] = "files"
    value_column: ClassVar[str | None] = "value"
    paths: ClassVar[tuple[str, ...]] = ("path", "archive_to")

    path: str = Field(description="The folder, or a glob of folders.")
    format: Format = Field(default="text", description="How the files are written.")
    schema_: str | None = Field(default=None, alias="schema", description="Columns, as 'name type, name type'.")
    infer: bool = Field(default=False, description="Take the schema from the files that are there at the start.")
    files_per_trigger: int | None = Field(default=None, ge=1, description="Maximum files in one batch.")
    bytes_per_trigger: int | None = Field(default=None, ge=1, description="Approximate maximum bytes in one batch.")
    newest_first: bool = Field(default=False, description="Read the newest files of a backlog first.")
    max_age: Duration | None = Field(default=None, description="Ignore files older than this before the newest.")
    glob: str | None = Field(default=None, description="Only file names that match, like '*.json'.")
    recursive: bool = Field(default=False, description="Read subfolders too.")
    after_read: Literal["leave", "archive", "delete"] = Field(
        default="leave", description="What to do with files that were read."
    )
    archive_to: str | None = Field(default=None, description="Where `after_read: archive` moves files to.")

    @model_validator(mode="after")
    def _check_combination(self) -> Self:
        if self.format == "text" and (self.schema_ or self.infer):
            raise ValueError("text files have one column, 'value'; take 'schema' and 'infer' out")
        if self.format != "text" and not self.schema_ and not self.infer:
            raise ValueError(f"{self.format} files need 'schema', or 'infer: true' to take it from the files")
        if self.schema_ and self.infer:
            raise ValueError("'schema' and 'infer' contradict each other; keep one")
        if (self.after_read == "archive") != bool(self.archive_to):
            raise ValueError("'after_read: archive' and 'archive_to' belong together")
        if self.files_per_trigger and self.bytes_per_trigger:
            raise ValueError("a batch has one limit; keep 'files_per_trigger' or 'bytes_per_trigger'")
        return self

    @property
    def infers_schema(self) -> bool:
        """Whether the columns are taken from the files."""
        return self.infer

    @property
    def on_reset(self) -> str:
        """Files that were deleted or archived after reading are not read again."""
        gone = {"archive": "; those that were archived are not", "delete": "; those that were deleted are not"}
        return f"is read whole: every file that is still there{gone.get(self.after_read, '')}"

    def for_preview(self, start: str, batch_rows: int) -> Self:  # noqa: ARG002
        """The newest or the oldest files first, a few per batch: rows cannot be counted before they are read."""
        few = (
            {}
            if self.bytes_per_trigger
            else {"files_per_trigger": min(_PREVIEW_FILES, self.files_per_trigger or _PREVIEW_FILES)}
        )
        return self.model_copy(update={"newest_first": start == "latest", **few})

    @property
    def jar_groups(self) -> tuple[str, ...]:
        """Avro files need their jar."""
        return ("avro",) if self.format == "avro" else ()

    @property
    def spark_description(self) -> tuple[str, ...]:
        """The last part of the path."""
        return (self.path.rstrip("/").rpartition("/")[2],)

    def read(self, spark: SparkSession) -> DataFrame:
        """The declared columns; for json and csv also the record that cannot be parsed, as `_corrupt_record`."""
        return self._load(self._limits(spark.readStream.format(self.format)), spark)

    def read_static(self, spark: SparkSession) -> DataFrame:
        """The same columns, of every file there now."""
        return self._load(spark.read.format(self.format).options(**self._which_files()), spark)

    @property
    def tells_changes(self) -> bool:
        """A folder can be listed."""
        return True

    def version(self) -> object:
        """Name, size and modification time of every file."""
        import fsspec

        system, path = fsspec.url_to_fs(self.path)
        found = system.find(path, detail=True)
        return sorted((name, facts.get("size"), str(facts.get("mtime"))) for name, facts in found.items())

    def _load(self, reader: Any, spark: SparkSession) -> DataFrame:
        reader = reader.options(**self.spark_options)
        schema = self.infer_schema(spark) if self.infer else self._parse_schema()
        if schema is None:
            return reader.load(self.path)  # type: ignore[no-any-return]
        if self.format in ("json", "csv"):
            schema = schema.add(CORRUPT, "string")
            reader = reader.options(mode="PERMISSIVE", columnNameOfCorruptRecord=CORRUPT)
        return reader.schema(schema).load(self.path)  # type: ignore[no-any-return]

    def _parse_schema(self) -> StructType | None:
        from pyspark.sql.types import StructType

        declared: Any = StructType.fromDDL(self.schema_) if self.schema_ else None
        return declared  # type: ignore[no-any-return]

    def infer_schema(self, spark: SparkSession) -> StructType:
        """The columns of the files there now."""
        from pyspark.sql.types import StructType

        options = {"inferSchema": "true", **self._which_files(), **self.spark_options}
        found = spark.read.format(self.format).options(**options).load(self.path).schema
        return StructType([field for field in found if field.name != CORRUPT])

    def _which_files(self) -> dict[str, str]:
        options = {"pathGlobFilter": self.glob, "recursiveFileLookup": "true" if self.recursive else None}
        return {key: value for key, value in options.items() if value is not None}

    def _limits(self, reader: DataStreamReader) -> DataStreamReader:
        options = {
            "maxFilesPerTrigger": self.files_per_trigger,
            "maxBytesPerTrigger": self.bytes_per_trigger,
            "latestFirst": str(self.newest_first).lower(),
            "maxFileAge": self.max_age and f"{int(seconds(self.max_age) * 1000)}ms",
            **self._which_files(),
            "cleanSource": {"leave": "off"}.get(self.after_read, self.after_read),
            "sourceArchiveDir": self.archive_to,
        }
        return reader.options(**{key: value for key, value in options.items() if value is not None})


class FileSink(SinkOptions):
    """Files of a folder, append only; exactly-once for readers that know Spark's log (`_spark_metadata`).

    As one of several targets every batch has its own folder, `batch=<checkpoint>-<number>`, which appears atomically,
    without a log: any reader of the folder reads each row once.
    """

    kind: ClassVar[str] = "files"
    modes: ClassVar[frozenset[str]] = frozenset({"append"})
    promise: ClassVar[str] = (
        "exactly-once for readers that know Spark's log; others may see a batch twice after a crash"
    )
    paths: ClassVar[tuple[str, ...]] = ("path",)

    path: str = Field(description="The folder to write to.")
    format: Format = Field(default="parquet", description="How the files are written.")
    partition_by: Names = Field(default=(), description="Columns to partition by.")

    @property
    def jar_groups(self) -> tuple[str, ...]:
        """Avro files need their jar."""
        return ("avro",) if self.format == "avro" else ()

    @property
    def native(self) -> bool:
        """Spark writes files by itself."""
        return True

    @property
    def destination(self) -> tuple[str, ...]:
        """The folder."""
        return ("path", self.path)

    @property
    def log_url(self) -> str:
        """Spark's log of the committed files."""
        return f"{self.path}/_spark_metadata"

    def check_columns(self, columns: Mapping[str, str], mode: str) -> None:  # noqa: ARG002
        """The partition columns exist, and the format can hold the others."""
        require_columns(columns, "partition_by", self.partition_by, exact=False)
        folders = [name.lower() for name in self.partition_by]
        kept = {name: kind for name, kind in columns.items() if name.lower() not in folders}
        if self.format == "text" and list(kept.values()) not in (["string"], [""]):
            found = ", ".join(f"{name} {kind}" for name, kind in kept.items()) or "none"
            raise BuildError(
                f"text files hold one column of type string, and the rows have {found}; use another format"
            )
        nested = [name for name, kind in kept.items() if kind.startswith(("array<", "map<", "struct<"))]
        if self.format == "csv" and nested:
            says = f"csv files cannot hold {', '.join(f'{name} ({kept[name]})' for name in nested)}"
            raise BuildError(f"{says}; use json or parquet, or convert it to text with to_json")

    def write_stream(self, rows: DataFrame) -> DataStreamWriter:
        """A writer of files."""
        writer = rows.writeStream.format(self.format).option("path", self.path).options(**self.spark_options)
        return writer.partitionBy(*self.partition_by) if self.partition_by else writer

    def open(self, spark: SparkSession, schema: StructType, mode: str) -> Writer:
        """Check the columns; the writer makes a folder for each batch."""
        self.check_columns(name_types(schema), mode)
        return _BatchFolders(self, HadoopFiles(spark))


@dataclass
class _BatchFolders(Writer):
    """Writes each batch into its own folder."""

    sink: FileSink
    files: HadoopFiles
    _has_synced_parents: bool = False

    def write(self, rows: DataFrame, batch: Batch) -> None:
        """Write the batch to a temporary folder, then rename that into place."""
        sink, name = self.sink, _folder(batch, batch.number)
        final, temporary = f"{sink.path}/{name}", f"{sink.path}/_writing/{name.partition('=')[2]}"
        if self._is_complete(final):
            # Renamed before a crash, and perhaps not yet on the disk.
            self._sync(final)
        else:
            writer = rows.write.format(sink.format).mode("overwrite").options(**sink.spark_options)
            writer.save(temporary, partitionBy=list(sink.partition_by) or None)
            # Before the rename, so that a folder of this name has its files, whatever happens.
            self._sync(temporary)
            self._move(temporary, final)
        self._sync_names()

    def last_batch(self, batch: Batch) -> int | None:
        """The newest folder of this checkpoint that is complete."""
        numbers = range(batch.number, max(-1, batch.number - _LOOK_BACK), -1)
        found = (number for number in numbers if self._is_complete(f"{self.sink.path}/{_folder(batch, number)}"))
        return next(found, -1)

    def _is_complete(self, folder: str) -> bool:
        local = local_path(folder)
        if local is None:
            # An object store has no power cut, and a local folder is not there.
            return self.files.exists(folder)
        # An empty batch may have no data file, only the marker of Spark's committer.
        found = [file for file in local.rglob("*") if file.is_file()]
        data = [file for file in found if not file.name.startswith((".", "_"))]
        return bool(found) and (self.sink.format not in _WITH_HEADER or all(file.stat().st_size for file in data))

    def _move(self, temporary: str, final: str) -> None:
        local = local_path(final)
        if local is not None:
            # Incomplete: release 0.1 renamed folders that were not yet on the disk.
            shutil.rmtree(local)
        if not self.files.rename(temporary, final):
            raise UnreachableError(f"{temporary} could not be renamed to {final}; check the storage")

    def _sync(self, folder: str) -> None:
        local = local_path(folder)
        if local is not None:
            fsync_tree(local)

    def _sync_names(self) -> None:
        local = local_path(self.sink.path)
        if local is not None:
            (fsync_folder if self._has_synced_parents else fsync_parents)(local)
            self._has_synced_parents = True


def _folder(batch: Batch, number: int) -> str:
    return f"batch={batch.query[:8]}-{number:09d}"
