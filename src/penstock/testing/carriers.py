"""How test rows reach Spark: one memory stream per query, and real files for file sources.

All sources of a query share one memory stream, so that a batch that feeds several sources is one batch for Spark too.
Files are real, because only Spark's file source decodes them as Spark's file source does.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.connectors.files import CORRUPT, FileSource
from penstock.errors import BuildError
from penstock.model import Source
from penstock.options import quote
from penstock.spark.internals import MemoryStream
from penstock.testing import encode as columns
from penstock.testing.case import Given
from penstock.testing.encode import Encoder, csv_line, json_text, to_json_value

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_END = "\n"


class Memory:
    """One stream with the rows of all sources of a query that are not files; it keeps all rows."""

    def __init__(self, spark: SparkSession, sources: Sequence[Source]) -> None:
        self._spark = spark
        self._schemas: dict[str, Any] = {}
        self._encoders = {source.name: Encoder(source, spark) for source in sources}
        self._counts = dict.fromkeys(self._encoders, 0)
        self._batches: list[list[str]] = []
        self._stream: MemoryStream | None = None

    def renew(self) -> None:
        """Create a new stream with everything fed so far, as a broker has it after a restart."""
        self._stream = MemoryStream(self._spark)
        for batch in self._batches:
            self._add(batch)

    def read(self, source: Source) -> DataFrame:
        """The raw rows of one source, in its connector's columns."""
        from pyspark.sql import functions as F  # noqa: N812

        if source.name not in self._schemas:
            self._schemas[source.name] = source.connector.columns(self._spark)
        schema = self._schemas[source.name]
        assert self._stream is not None
        lines = self._stream.read()
        mark = source.name + _END
        text = F.substring("value", len(mark) + 1, 2**31 - 1)
        own = lines.where(F.col("value").startswith(mark)).select(F.from_json(text, schema).alias("row"))
        return own.select(*(F.col("row")[field.name].alias(field.name) for field in schema))

    def feed(self, rows: Mapping[str, Sequence[Given]]) -> None:
        """Add one batch, for any of the sources."""
        batch = [line for name, given in rows.items() if name in self._encoders for line in self._lines(name, given)]
        self._batches.append(batch)
        self._add(batch)

    def _lines(self, name: str, rows: Sequence[Given]) -> list[str]:
        schema = self._schemas[name]
        records = self._encoders[name].records(rows, schema.names, self._counts[name])
        self._counts[name] += len(records)
        whole = (
            {field.name: to_json_value(row.get(field.name), field.dataType) for field in schema} for row in records
        )
        return [f"{name}{_END}{json_text(row)}" for row in whole]

    def _add(self, lines: list[str]) -> None:
        assert self._stream is not None
        self._stream.add(lines)


class Files:
    """Writes the files of a source, one folder per batch; a static table gets a new folder each time."""

    def __init__(self, spark: SparkSession, source: Source, folder: Path) -> None:
        self._spark = spark
        self._source = source
        self._encoder = Encoder(source, spark)
        self._inbox = folder / "inbox"
        self._outbox = folder / "outbox"
        self._inbox.mkdir(parents=True)
        self._outbox.mkdir()
        self._count = 0
        self._connector = self._redirect(source.connector)

    def read(self) -> DataFrame:
        """The source's stream, or its static table, of this folder."""
        static = self._source.static
        return self._connector.read_static(self._spark) if static else self._connector.read(self._spark)

    def feed(self, rows: Sequence[Given]) -> None:
        """Add one batch: a folder of files that appears atomically."""
        folder = self._write(rows)
        folder.rename(self._inbox / folder.name)

    def put(self, rows: Sequence[Given]) -> None:
        """Replace the whole table, for queries that start later."""
        # A new folder, because Spark caches a table by its path.
        folder = self._write(rows)
        self._connector = self._connector.model_copy(update={"path": str(folder)})

    def _write(self, rows: Sequence[Given]) -> Path:
        folder = self._outbox / f"{self._count:05}"
        folder.mkdir()
        if self._connector.format in ("text", "json", "csv"):
            self._write_text(folder, rows)
        elif rows:
            self._write_with_spark(folder, rows)
        self._count += 1
        return folder

    def _redirect(self, connector: Any) -> FileSource:
        here = {"path": str(self._inbox), "recursive": True, "after_read": "leave", "archive_to": None, "glob": None}
        every = {"files_per_trigger": None, "bytes_per_trigger": None, "max_age": None, "newest_first": False}
        moved: FileSource = connector.model_copy(update={**here, **every})
        if not connector.infer:
            return moved
        found = [field for field in connector.read(self._spark).schema if field.name != CORRUPT]
        ddl = ", ".join(f"{quote(field.name)} {field.dataType.simpleString()}" for field in found)
        return moved.model_copy(update={"infer": False, "schema_": ddl})

    def _write_text(self, folder: Path, rows: Sequence[Given]) -> None:
        options = {key.lower(): str(value).lower() for key, value in self._connector.options.items()}
        lines = [self._line(row) for row in rows]
        header = [self._header()] if options.get("header") == "true" and self._connector.format == "csv" else []
        whole = "true" in (options.get("multiline"), options.get("wholetext"))
        for number, part in enumerate([[line] for line in lines] if whole else [lines]):
            text = "\n".join([*header, *part]) if whole else "".join(f"{line}\n" for line in [*header, *part])
            (folder / f"{number:05}.{self._connector.format}").write_bytes(text.encode(errors="surrogateescape"))

    def _line(self, row: Given) -> str:
        if isinstance(row, bytes):
            return row.decode(errors="surrogateescape")
        if isinstance(row, str):
            return row
        fields = {name: value for name, value in row.items() if name != columns.RECORD}
        if self._connector.format == "json":
            return json_text(fields)
        if self._connector.format == "csv":
            return csv_line(fields, self._names(), self._connector.options)
        return str(self._encoder.value(row))

    def _header(self) -> str:
        return csv_line({name: name for name in self._names()}, self._names(), self._connector.options)

    def _names(self) -> tuple[str, ...]:
        return columns.column_names(self._connector.schema_ or "")

    def _write_with_spark(self, folder: Path, rows: Sequence[Given]) -> None:
        from pyspark.sql import functions as F  # noqa: N812
        from pyspark.sql.types import StructType

        schema: Any = StructType.fromDDL(self._connector.schema_ or "")
        texts = self._spark.createDataFrame([(json.dumps(row, default=str),) for row in rows], "text string")
        typed = texts.select(F.from_json("text", schema, {"mode": "FAILFAST"}).alias("row")).select("row.*")
        written = folder.with_suffix(".written")
        typed.coalesce(1).write.format(self._connector.format).save(str(written))
        for part in written.glob("part-*"):
            part.rename(folder / part.name)
        shutil.rmtree(written)


class Table:
    """The rows of a static table of another system, with its declared columns."""

    def __init__(self, spark: SparkSession, source: Source) -> None:
        self._spark, self._source = spark, source
        self._rows: list[str] = []

    def read(self) -> DataFrame:
        """The table's rows."""
        from pyspark.sql import functions as F  # noqa: N812
        from pyspark.sql.types import StructType

        declared = self._source.connector.declared_schema
        if not declared:
            says = f"{self._source.at}: source {self._source.name!r} does not declare its columns"
            raise BuildError(f"{says}; add 'schema: name type, name type', so that a test can give it rows")
        schema: Any = StructType.fromDDL(declared)
        texts = self._spark.createDataFrame([(text,) for text in self._rows], "text string")
        return texts.select(F.from_json("text", schema, {"mode": "FAILFAST"}).alias("row")).select("row.*")

    def put(self, rows: Sequence[Given]) -> None:
        """Replace the whole table, for queries that start later."""
        self._rows = [json_text(row) for row in rows]
