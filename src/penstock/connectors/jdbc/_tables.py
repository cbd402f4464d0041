"""The table that a sink writes to: schema check, staging, and the numbers of the batches written."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from penstock.connector import Batch
from penstock.connectors._table_schema import SchemaDiff, TableColumn
from penstock.connectors.jdbc._connection import Column, Connection, TableName
from penstock.connectors.jdbc._databases import Database
from penstock.errors import BuildError, RunError
from penstock.spark import column
from penstock.text import join_words

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

BATCHES_TABLE = "penstock_batches"
ROW_COLUMN = "penstock_row"
"""A column of the staging table that numbers the rows, to detect a task that Spark ran twice."""


@dataclass(frozen=True)
class StagedBatch:
    """A batch in its staging table."""

    table: TableName
    columns: tuple[str, ...]


@dataclass
class SinkTable:
    """The table of a sink, through one connection."""

    connection: Connection
    database: Database
    given_name: str
    address: str

    @cached_property
    def name(self) -> TableName:
        """The table in the database's spelling; BuildError if there is none."""
        found = self.connection.find(TableName.parse(self.given_name))
        if found is None:
            fix = "create it, correct 'table', or set 'create: true'"
            raise BuildError(f"there is no table {self.given_name} in {self.address}; {fix}")
        return found

    @cached_property
    def columns(self) -> list[Column]:
        """The current columns."""
        return self.connection.columns(self.name)

    def create(self, schema: StructType, key: Sequence[str]) -> None:
        """Create the table with the columns of the rows if it does not exist."""
        asked = TableName.parse(self.given_name)
        if self.connection.find(asked) is not None:
            return
        types = {field.name: self.database.column_type(field.dataType) for field in schema}
        unknown = [f"{field.name} {field.dataType.simpleString()}" for field in schema if types[field.name] is None]
        if unknown:
            says = f"{self.database.name} has no type for {join_words(unknown, 'and')}"
            raise BuildError(f"{says}; convert it to text with to_json in what the sink reads")
        q = self.connection.quote
        parts = [f"{q(name)} {kind}{' NOT NULL' if name in key else ''}" for name, kind in types.items()]
        parts += [f"PRIMARY KEY ({', '.join(map(q, key))})"] if key else []
        self.connection.execute(f"CREATE TABLE {q(asked)} ({', '.join(parts)})")

    def check(self, schema: StructType, key: Sequence[str], *, strict: bool) -> None:
        """Raise an error that names every column that does not match, or the unique keys that exist."""
        columns = [
            TableColumn(
                column.name,
                _type_text(column),
                column.required,
                takes=lambda kind, column=column: self.database.takes(column, kind),  # type: ignore[misc]
            )
            for column in self.columns
        ]
        diff = SchemaDiff.compare(schema, columns)
        filled = {column.name for column in self.columns if column.has_default}
        missing = [each for each in diff.missing if each.required or (strict and each.name not in filled)]
        fix = "change what the sink reads (to_json converts anything to text), or the table"
        fix += ", or set 'schema: ignore' to leave other columns out" if strict else ""
        diff.refuse(f"table {self.given_name} in {self.address}", missing=missing, extra=strict, fix=fix)
        if key and frozenset(self.match_names(key)) not in self.connection.unique_keys(self.name):
            there = [f"({', '.join(sorted(each))})" for each in self.connection.unique_keys(self.name)]
            says = f"table {self.given_name} in {self.address} has no primary key or unique index on ({', '.join(key)})"
            raise BuildError(f"{says}, only on {join_words(there, 'and')}; add one, or correct 'key'")

    def create_batches_table(self) -> None:
        """Create the table of batch numbers if it does not exist."""
        from py4j.protocol import Py4JJavaError

        q = self.connection.quote
        columns = (
            f"{q('writer')} VARCHAR(400) NOT NULL, {q('query')} VARCHAR(64) NOT NULL, {q('batch')} BIGINT NOT NULL"
        )
        if self._find_batches_table() is None:
            try:
                self.connection.execute(
                    f"CREATE TABLE {q(self.name.sibling(BATCHES_TABLE))} "
                    f"({columns}, PRIMARY KEY ({q('writer')}, {q('query')}))"
                )
            except Py4JJavaError:
                # Another pipeline may have just created it.
                if self._find_batches_table() is None:
                    raise

    def has_batch(self, batch: Batch) -> bool:
        """Whether the table has this batch, or a later one of the same writer."""
        return batch.number <= self.last_batch(batch)

    def match_names(self, names: Sequence[str]) -> tuple[str, ...]:
        """Column names in the table's spelling."""
        known = {column.name.lower(): column.name for column in self.columns}
        return tuple(known[name.lower()] for name in names)

    def select_columns(self, rows: DataFrame) -> DataFrame:
        """The rows' columns that the table has, in its spelling."""
        ours = {name.lower(): name for name in rows.columns}
        both = [column.name for column in self.columns if column.name.lower() in ours]
        return rows.select(*(column(ours[name.lower()]).alias(name) for name in both))

    def stage(self, batch: Batch, columns: Sequence[str]) -> tuple[TableName, str]:
        """Create an empty staging table; returns it with the mode that Spark writes to it.

        Its name is unique, and those of earlier attempts are dropped: another live run of the same pipeline cannot mix
        its rows with these, and fails when it tries to move its own.
        """
        prefix = f"penstock_{hashlib.sha256(batch.writer.encode()).hexdigest()[:16]}_"
        for left in self.connection.tables(self.name.schema, prefix):
            self.drop(left)
        staging = self.name.sibling(f"{prefix}{uuid.uuid4().hex[:8]}")
        statement = self.database.staging_statement(self.connection, staging, self.name, [*columns, ROW_COLUMN])
        if statement is None:
            return staging, "overwrite"
        self.connection.execute(statement)
        return staging, "append"

    def move(self, staged: StagedBatch, batch: Batch, key: Sequence[str], latest: str | None) -> None:
        """Move the rows and record the batch's number; call it inside a transaction."""
        q = self.connection.quote
        self._record_batch(batch)
        self._check_rows(staged, batch)
        if batch.mode == "complete":
            self.connection.execute(f"DELETE FROM {q(self.name)}")  # noqa: S608
        names = ", ".join(map(q, staged.columns))
        text = f"INSERT INTO {q(self.name)} ({names}) SELECT {names} FROM {q(staged.table)}"  # noqa: S608
        if key:
            text += self.database.upsert_clause(self.connection, self.name, staged.columns, key, latest)
        self.connection.execute(text)

    def drop(self, table: TableName) -> None:
        """Drop an existing table."""
        self.connection.execute(f"DROP TABLE {self.connection.quote(table)}")

    def _check_rows(self, staged: StagedBatch, batch: Batch) -> None:
        q = self.connection.quote
        query = f"SELECT count(*) - count(DISTINCT {q(ROW_COLUMN)}) FROM {q(staged.table)}"  # noqa: S608
        duplicates = int(self.connection.first(query) or 0)
        if duplicates:
            says = f"{duplicates} rows of batch {batch.number} were sent twice, because Spark ran a task again"
            raise RunError(
                f"{says}; nothing was written to {self.given_name}, and the batch will be retried", retry=True
            )

    def _record_batch(self, batch: Batch) -> None:
        q, table = self.connection.quote, self.connection.quote(self._batches_table)
        if self.last_batch(batch) < 0:
            text = f"INSERT INTO {table} ({q('writer')}, {q('query')}, {q('batch')}) VALUES (?, ?, ?)"  # noqa: S608
            self.connection.execute(text, batch.writer, batch.query, batch.number)
            return
        same = f"{q('writer')} = ? AND {q('query')} = ? AND {q('batch')} < ?"
        text = f"UPDATE {table} SET {q('batch')} = ? WHERE {same}"  # noqa: S608
        if self.connection.execute(text, batch.number, batch.writer, batch.query, batch.number) != 1:
            raise RunError(f"another run of {batch.writer} has written batch {batch.number} meanwhile", retry=True)

    def last_batch(self, batch: Batch) -> int:
        """The last batch of the same writer and checkpoint; -1 if there is none."""
        q = self.connection.quote
        text = f"SELECT {q('batch')} FROM {q(self._batches_table)} WHERE {q('writer')} = ? AND {q('query')} = ?"  # noqa: S608
        found = self.connection.first(text, batch.writer, batch.query)
        return -1 if found is None else int(found)

    def _find_batches_table(self) -> TableName | None:
        return self.connection.find(self.name.sibling(BATCHES_TABLE))

    @cached_property
    def _batches_table(self) -> TableName:
        found = self._find_batches_table()
        if found is None:
            raise BuildError(f"there is no table {BATCHES_TABLE} in {self.address} any more; start the pipeline again")
        return found


def _type_text(column: Column) -> str:
    has_scale = column.type.lower() in ("numeric", "decimal") and 0 < column.size <= 1000
    return f"{column.type.lower()}({column.size},{column.scale})" if has_scale else column.type.lower()
