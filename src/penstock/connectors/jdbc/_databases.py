"""SQL dialects: PostgreSQL and SQLite; for any other database only standard SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.connectors.jdbc._connection import Column, Connection, TableName
from penstock.options import quote
from penstock.spark import column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

# java.sql.Types, by what can be written to them.
_WHOLE = {-6: 1, 5: 2, 4: 3, -5: 4}
_DECIMAL = (2, 3)
_SINGLE, _DOUBLE = (7,), (6, 8)
_TEXT = (1, 12, -1, -15, -9, -16, 2005, 2011)
_OTHER = (1111, 2009)
_BOOLEAN = (-7, 16)
_DATE, _TIMESTAMP = (91,), (93, 2014)
_BINARY = (-2, -3, -4, 2004)
_ARRAY = (2003,)

_RANKS = {"tinyint": 1, "smallint": 2, "int": 3, "bigint": 4}
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
_FITS = {
    "string": (*_TEXT, *_OTHER),
    "boolean": _BOOLEAN,
    "date": (*_DATE, *_TIMESTAMP),
    "timestamp": _TIMESTAMP,
    "timestamp_ntz": _TIMESTAMP,
    "binary": _BINARY,
    "array": _ARRAY,
    "float": (*_SINGLE, *_DOUBLE),
    "double": _DOUBLE,
}
# Drivers report a huge size for a decimal without limits.
_MAX_DIGITS = 1000


class Database:
    """An unknown database: rows can be added to existing tables."""

    name: ClassVar[str] = "this database"
    types: ClassVar[Mapping[str, str]] = {}
    properties: ClassVar[Mapping[str, str]] = {}
    jars: ClassVar[tuple[str, ...]] = ()
    upserts: ClassVar[bool] = False
    one_writer: ClassVar[bool] = False

    def takes(self, column: Column, kind: DataType) -> bool:
        """Whether every value of a Spark type can be written to a column unchanged."""
        word = kind.typeName() if kind.typeName() == "array" else kind.simpleString()
        if word in _RANKS:
            exact = word != "bigint" and column.code in _DOUBLE
            return _RANKS[word] <= _WHOLE.get(column.code, 0) or exact or _holds(column, _DIGITS[word], 0)
        if word.startswith("decimal("):
            precision, scale = (int(number) for number in word[8:-1].split(","))
            return _holds(column, precision - scale, scale)
        return column.code in _FITS.get(word, ())

    def column_type(self, kind: DataType) -> str | None:
        """The column type for a Spark type; None if there is none."""
        if kind.typeName() == "decimal":
            return f"{self.types['decimal']}({kind.precision},{kind.scale})" if "decimal" in self.types else None  # type: ignore[attr-defined]
        return self.types.get(kind.simpleString())

    def convert_for_driver(self, rows: DataFrame) -> DataFrame:
        """Cast columns whose types the driver would write in an unexpected way."""
        return rows

    def staging_statement(
        self,
        connection: Connection,  # noqa: ARG002
        staging: TableName,  # noqa: ARG002
        like: TableName,  # noqa: ARG002
        columns: Sequence[str],  # noqa: ARG002
    ) -> str | None:
        """The statement that creates an empty copy of a table plus a number column; None if Spark creates it."""
        return None

    def upsert_clause(
        self, connection: Connection, table: TableName, columns: Sequence[str], key: Sequence[str], latest: str | None
    ) -> str:
        """The clause after an INSERT that makes a row replace the one of its key."""
        raise NotImplementedError

    def read_options(self, connection: Connection, selection: str) -> dict[str, str]:  # noqa: ARG002
        """Options that Spark needs to read a table correctly."""
        return {}


class _OnConflict(Database):
    upserts: ClassVar[bool] = True

    def upsert_clause(
        self, connection: Connection, table: TableName, columns: Sequence[str], key: Sequence[str], latest: str | None
    ) -> str:
        """ON CONFLICT, as PostgreSQL and SQLite spell it."""
        q, target = connection.quote, connection.quote(table.table)
        changes = ", ".join(f"{q(name)} = excluded.{q(name)}" for name in columns if name not in key)
        # Without WHERE true, SQLite parses ON as a join condition.
        found = f" WHERE true ON CONFLICT ({', '.join(map(q, key))})"
        if not changes:
            return f"{found} DO NOTHING"
        newer = f"{target}.{q(latest)} IS NULL OR excluded.{q(latest)} >= {target}.{q(latest)}" if latest else ""
        return f"{found} DO UPDATE SET {changes}" + (f" WHERE {newer}" if newer else "")


class PostgreSQL(_OnConflict):
    """PostgreSQL 12 and later."""

    name: ClassVar[str] = "PostgreSQL"
    jars: ClassVar[tuple[str, ...]] = ("postgresql",)
    # Text is sent untyped, so that PostgreSQL converts it to uuid, jsonb or an enum.
    properties: ClassVar[Mapping[str, str]] = {"stringtype": "unspecified", "reWriteBatchedInserts": "true"}
    types: ClassVar[Mapping[str, str]] = {
        "tinyint": "SMALLINT",
        "smallint": "SMALLINT",
        "int": "INTEGER",
        "bigint": "BIGINT",
        "float": "REAL",
        "double": "DOUBLE PRECISION",
        "decimal": "NUMERIC",
        "string": "TEXT",
        "boolean": "BOOLEAN",
        "date": "DATE",
        "timestamp": "TIMESTAMP WITH TIME ZONE",
        "timestamp_ntz": "TIMESTAMP",
        "binary": "BYTEA",
    }

    def column_type(self, kind: DataType) -> str | None:
        """Arrays of the element's type."""
        if kind.typeName() == "array":
            inside = self.column_type(kind.elementType)  # type: ignore[attr-defined]
            return f"{inside}[]" if inside else None
        return super().column_type(kind)

    def staging_statement(
        self, connection: Connection, staging: TableName, like: TableName, columns: Sequence[str]
    ) -> str | None:
        """An unlogged table: it is not needed after a crash."""
        chosen = f"SELECT {_select_list(connection, columns)} FROM {connection.quote(like)}"  # noqa: S608
        return f"CREATE UNLOGGED TABLE {connection.quote(staging)} AS {chosen} WITH NO DATA"


class SQLite(_OnConflict):
    """SQLite 3.24 and later: a local file with one writer at a time; dates and times are ISO text."""

    name: ClassVar[str] = "SQLite"
    jars: ClassVar[tuple[str, ...]] = ("sqlite",)
    one_writer: ClassVar[bool] = True
    # Wait for another writer instead of failing; take the write lock when the transaction begins.
    properties: ClassVar[Mapping[str, str]] = {"busy_timeout": "30000", "transaction_mode": "IMMEDIATE"}
    types: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(["tinyint", "smallint", "int", "bigint", "boolean"], "INTEGER"),
        **dict.fromkeys(["float", "double"], "REAL"),
        **dict.fromkeys(["string", "date", "timestamp", "timestamp_ntz"], "TEXT"),
        "decimal": "NUMERIC",
        "binary": "BLOB",
    }

    def takes(self, column: Column, kind: DataType) -> bool:
        """By the column's type affinity."""
        word, declared = kind.simpleString().split("(")[0], column.type.upper()
        if word in ("date", "timestamp", "timestamp_ntz") and ("DATE" in declared or "TIME" in declared):
            return True
        affinity = _affinity(declared)
        numbers = ("tinyint", "smallint", "int", "bigint", "boolean", "float", "double", "decimal")
        allowed = {
            "INTEGER": numbers[:5],
            "REAL": ("float", "double", *numbers[:3]),
            "NUMERIC": numbers,
            "TEXT": ("string", "date", "timestamp", "timestamp_ntz"),
            "BLOB": ("binary",),
            "": (*numbers, "string", "date", "timestamp", "timestamp_ntz", "binary"),
        }
        return word in allowed[affinity]

    def convert_for_driver(self, rows: DataFrame) -> DataFrame:
        """Dates and times as sortable text: the driver would write milliseconds."""
        from pyspark.sql import functions as F  # noqa: N812

        def text(name: str, kind: str) -> Any:
            if kind.startswith("timestamp"):
                return F.date_format(column(name), "yyyy-MM-dd HH:mm:ss.SSSSSS").alias(name)
            return column(name).cast("string").alias(name) if kind == "date" else column(name)

        return rows.select(*(text(field.name, field.dataType.simpleString()) for field in rows.schema))

    def staging_statement(
        self, connection: Connection, staging: TableName, like: TableName, columns: Sequence[str]
    ) -> str | None:
        """Columns with the same affinity."""
        chosen = f"SELECT {_select_list(connection, columns)} FROM {connection.quote(like)}"  # noqa: S608
        return f"CREATE TABLE {connection.quote(staging)} AS {chosen} WHERE 0"

    def read_options(self, connection: Connection, selection: str) -> dict[str, str]:
        """INTEGER and REAL have eight bytes, and Spark would read four."""
        words = {"INTEGER": "bigint", "REAL": "double"}
        found = connection.types(f"SELECT * FROM {selection} WHERE 0")  # noqa: S608
        wide = [(name, words[_affinity(kind.upper())]) for name, kind in found if _affinity(kind.upper()) in words]
        return {"customSchema": ", ".join(f"{quote(name)} {kind}" for name, kind in wide)} if wide else {}


def _select_list(connection: Connection, columns: Sequence[str]) -> str:
    """The columns of a table, and an additional number column."""
    *own, number = columns
    return ", ".join([*map(connection.quote, own), f"CAST(0 AS BIGINT) AS {connection.quote(number)}"])


def _affinity(declared: str) -> str:
    """SQLite's affinity rules, in their order."""
    words = {"INT": "INTEGER", "CHAR": "TEXT", "CLOB": "TEXT", "TEXT": "TEXT", "BLOB": "BLOB"}
    words |= {"REAL": "REAL", "FLOA": "REAL", "DOUB": "REAL"}
    if not declared:
        return ""
    return next((affinity for word, affinity in words.items() if word in declared), "NUMERIC")


def _holds(column: Column, before: int, after: int) -> bool:
    if column.code not in _DECIMAL:
        return False
    unbounded = column.size == 0 or column.size > _MAX_DIGITS
    return unbounded or (before <= column.size - column.scale and after <= column.scale)


DATABASES: Mapping[str, Database] = {"jdbc:postgresql:": PostgreSQL(), "jdbc:sqlite:": SQLite()}


def database_for(url: str) -> Database:
    """The dialect for a JDBC URL."""
    return next((known for prefix, known in DATABASES.items() if url.startswith(prefix)), Database())
