"""A table of a database that batches are written to: its columns, the numbers of its batches, the move of one."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from penstock.connector import Batch
from penstock.connectors._table_schema import SchemaDiff, TableColumn
from penstock.connectors.jdbc._connection import Column, Connection, Name
from penstock.connectors.jdbc._databases import Database
from penstock.errors import BuildError, RunError
from penstock.spark.columns import column
from penstock.text import join_words

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

BATCHES = "penstock_batches"
ROW = "penstock_row"
"""A number for each row of a batch, beside its table: a task that Spark ran twice is known by it."""


@dataclass(frozen=True)
class Staged:
    """A batch that lies beside its table, ready to be moved."""

    table: Name
    columns: tuple[str, ...]


@dataclass
class Target:
    """The table of a sink, seen through one connection."""

    connection: Connection
    database: Database
    asked: str
    address: str

    @cached_property
    def name(self) -> Name:
        """The table in the database's spelling; an error if there is none."""
        found = self.connection.find(Name.of(self.asked))
        if found is None:
            fix = "create it, correct 'table', or set 'create: true'"
            raise BuildError(f"there is no table {self.asked} in {self.address}; {fix}")
        return found

    @cached_property
    def columns(self) -> list[Column]:
        """Its columns now."""
        return self.connection.columns(self.name)

    def create(self, schema: StructType, key: Sequence[str]) -> None:
        """Make the table with the columns of the rows, unless it is there."""
        asked = Name.of(self.asked)
        if self.connection.find(asked) is not None:
            return
        types = {field.name: self.database.type_of(field.dataType) for field in schema}
        unknown = [f"{field.name} {field.dataType.simpleString()}" for field in schema if types[field.name] is None]
        if unknown:
            says = f"{self.database.name} has no type for {join_words(unknown, 'and')}"
            raise BuildError(f"{says}; make text of it with to_json in what the sink reads")
        q = self.connection.quoted
        parts = [f"{q(name)} {kind}{' NOT NULL' if name in key else ''}" for name, kind in types.items()]
        parts += [f"PRIMARY KEY ({', '.join(map(q, key))})"] if key else []
        self.connection.execute(f"CREATE TABLE {q(asked)} ({', '.join(parts)})")

    def check(self, schema: StructType, key: Sequence[str], *, strict: bool) -> None:
        """An error that names every column that does not fit, or the keys that there are."""
        columns = [
            TableColumn(
                column.name,
                _shown(column),
                column.required,
                takes=lambda kind, column=column: self.database.takes(column, kind),  # type: ignore[misc]
            )
            for column in self.columns
        ]
        misfits = SchemaDiff.between(schema, columns)
        filled = {column.name for column in self.columns if column.filled}
        missing = [each for each in misfits.missing if each.required or (strict and each.name not in filled)]
        fix = "change what the sink reads (to_json makes text of anything), or the table"
        fix += ", or set 'schema: ignore' to leave other columns out" if strict else ""
        misfits.refuse(f"table {self.asked} in {self.address}", missing=missing, extra=strict, fix=fix)
        if key and frozenset(self.spelled(key)) not in self.connection.unique(self.name):
            there = [f"({', '.join(sorted(each))})" for each in self.connection.unique(self.name)]
            says = f"table {self.asked} in {self.address} has no primary key or unique index on ({', '.join(key)})"
            raise BuildError(f"{says}, only on {join_words(there, 'and')}; add one, or correct 'key'")

    def prepare(self) -> None:
        """Make the table of the batches' numbers, unless it is there."""
        from py4j.protocol import Py4JJavaError

        q = self.connection.quoted
        columns = (
            f"{q('writer')} VARCHAR(400) NOT NULL, {q('query')} VARCHAR(64) NOT NULL, {q('batch')} BIGINT NOT NULL"
        )
        if self._batches() is None:
            try:
                self.connection.execute(
                    f"CREATE TABLE {q(self.name.beside(BATCHES))} "
                    f"({columns}, PRIMARY KEY ({q('writer')}, {q('query')}))"
                )
            except Py4JJavaError:
                # Another pipeline may have made it a moment before.
                if self._batches() is None:
                    raise

    def has(self, batch: Batch) -> bool:
        """Whether the table has this batch, or a later one of the same writer."""
        last = self._last(batch)
        return last is not None and batch.number <= last

    def spelled(self, names: Sequence[str]) -> tuple[str, ...]:
        """Names of columns as the table has them."""
        known = {column.name.lower(): column.name for column in self.columns}
        return tuple(known[name.lower()] for name in names)

    def shaped(self, rows: DataFrame) -> DataFrame:
        """The columns that the table has, in its spelling."""
        ours = {name.lower(): name for name in rows.columns}
        both = [column.name for column in self.columns if column.name.lower() in ours]
        return rows.select(*(column(ours[name.lower()]).alias(name) for name in both))

    def stage(self, batch: Batch, columns: Sequence[str]) -> tuple[Name, str]:
        """An empty table aside, and how Spark writes to it.

        Its name is new every time, and those of earlier tries are dropped: another run of the same pipeline that still
        lives cannot mix its rows with these, and fails when it comes to move its own.
        """
        prefix = f"penstock_{hashlib.sha256(batch.writer.encode()).hexdigest()[:16]}_"
        for left in self.connection.tables(self.name.schema, prefix):
            self.drop(left)
        aside = self.name.beside(f"{prefix}{uuid.uuid4().hex[:8]}")
        statement = self.database.staging(self.connection, aside, self.name, [*columns, ROW])
        if statement is None:
            return aside, "overwrite"
        self.connection.execute(statement)
        return aside, "append"

    def move(self, staged: Staged, batch: Batch, key: Sequence[str], latest: str | None) -> None:
        """The rows and the batch's number, inside of a transaction that the caller has begun."""
        q = self.connection.quoted
        self._note(batch)
        self._check_rows(staged, batch)
        if batch.mode == "complete":
            self.connection.execute(f"DELETE FROM {q(self.name)}")  # noqa: S608
        names = ", ".join(map(q, staged.columns))
        text = f"INSERT INTO {q(self.name)} ({names}) SELECT {names} FROM {q(staged.table)}"  # noqa: S608
        if key:
            text += self.database.upsert(self.connection, self.name, staged.columns, key, latest)
        self.connection.execute(text)

    def drop(self, table: Name) -> None:
        """Drop a table that is there."""
        self.connection.execute(f"DROP TABLE {self.connection.quoted(table)}")

    def _check_rows(self, staged: Staged, batch: Batch) -> None:
        q = self.connection.quoted
        twice = f"SELECT count(*) - count(DISTINCT {q(ROW)}) FROM {q(staged.table)}"  # noqa: S608
        doubled = int(self.connection.first(twice) or 0)
        if doubled:
            says = f"{doubled} rows of batch {batch.number} were sent twice, as a task of Spark was run again"
            raise RunError(f"{says}; nothing was written to {self.asked}, and the next try begins anew", retry=True)

    def _note(self, batch: Batch) -> None:
        q, table = self.connection.quoted, self.connection.quoted(self._known_batches)
        before = self._last(batch)
        if before is None:
            text = f"INSERT INTO {table} ({q('writer')}, {q('query')}, {q('batch')}) VALUES (?, ?, ?)"  # noqa: S608
            self.connection.execute(text, batch.writer, batch.query, batch.number)
            return
        same = f"{q('writer')} = ? AND {q('query')} = ? AND {q('batch')} < ?"
        text = f"UPDATE {table} SET {q('batch')} = ? WHERE {same}"  # noqa: S608
        if self.connection.execute(text, batch.number, batch.writer, batch.query, batch.number) != 1:
            raise RunError(f"another run of {batch.writer} has written batch {batch.number} meanwhile", retry=True)

    def _last(self, batch: Batch) -> int | None:
        q = self.connection.quoted
        text = f"SELECT {q('batch')} FROM {q(self._known_batches)} WHERE {q('writer')} = ? AND {q('query')} = ?"  # noqa: S608
        found = self.connection.first(text, batch.writer, batch.query)
        return None if found is None else int(found)

    def _batches(self) -> Name | None:
        return self.connection.find(self.name.beside(BATCHES))

    @cached_property
    def _known_batches(self) -> Name:
        found = self._batches()
        if found is None:
            raise BuildError(f"there is no table {BATCHES} in {self.address} any more; start the pipeline again")
        return found


def _shown(column: Column) -> str:
    has_scale = column.type.lower() in ("numeric", "decimal") and 0 < column.size <= 1000
    return f"{column.type.lower()}({column.size},{column.scale})" if has_scale else column.type.lower()
