"""What Penstock knows about databases: PostgreSQL and SQLite; of any other only what is common to all of SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.connectors.jdbc._connection import Column, Connection, Name
from penstock.options import quote
from penstock.spark.columns import column

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
# Drivers give a size that no number reaches for a decimal without limits.
_MOST_DIGITS = 1000


class Database:
    """A database that only its driver knows: rows can be added to tables that are there."""

    name: ClassVar[str] = "this database"
    types: ClassVar[Mapping[str, str]] = {}
    properties: ClassVar[Mapping[str, str]] = {}
    jars: ClassVar[tuple[str, ...]] = ()
    upserts: ClassVar[bool] = False
    one_writer: ClassVar[bool] = False

    def takes(self, column: Column, kind: DataType) -> bool:
        """Whether every value of a type of Spark can be written to a column, unchanged."""
        word = kind.typeName() if kind.typeName() == "array" else kind.simpleString()
        if word in _RANKS:
            exact = word != "bigint" and column.code in _DOUBLE
            return _RANKS[word] <= _WHOLE.get(column.code, 0) or exact or _holds(column, _DIGITS[word], 0)
        if word.startswith("decimal("):
            precision, scale = (int(number) for number in word[8:-1].split(","))
            return _holds(column, precision - scale, scale)
        return column.code in _FITS.get(word, ())

    def type_of(self, kind: DataType) -> str | None:
        """What a column of a type of Spark is called here; None if there is nothing for it."""
        if kind.typeName() == "decimal":
            return f"{self.types['decimal']}({kind.precision},{kind.scale})" if "decimal" in self.types else None  # type: ignore[attr-defined]
        return self.types.get(kind.simpleString())

    def as_written(self, rows: DataFrame) -> DataFrame:
        """The rows in types that the driver writes as one would expect."""
        return rows

    def staging(self, connection: Connection, made: Name, like: Name, columns: Sequence[str]) -> str | None:  # noqa: ARG002
        """The statement that makes an empty copy of a table, the last column being a number; None if Spark makes it."""
        return None

    def upsert(
        self, connection: Connection, table: Name, columns: Sequence[str], key: Sequence[str], latest: str | None
    ) -> str:
        """What follows an INSERT, so that a row replaces the one of its key."""
        raise NotImplementedError

    def read_options(self, connection: Connection, selection: str) -> dict[str, str]:  # noqa: ARG002
        """What Spark must be told to read a table right."""
        return {}


class _OnConflict(Database):
    upserts: ClassVar[bool] = True

    def upsert(
        self, connection: Connection, table: Name, columns: Sequence[str], key: Sequence[str], latest: str | None
    ) -> str:
        """ON CONFLICT, as PostgreSQL and SQLite spell it."""
        quoted, target = connection.quoted, connection.quoted(table.table)
        changes = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in columns if name not in key)
        # WHERE true: without it SQLite takes ON for the condition of a join.
        found = f" WHERE true ON CONFLICT ({', '.join(map(quoted, key))})"
        if not changes:
            return f"{found} DO NOTHING"
        newer = (
            f"{target}.{quoted(latest)} IS NULL OR excluded.{quoted(latest)} >= {target}.{quoted(latest)}"
            if latest
            else ""
        )
        return f"{found} DO UPDATE SET {changes}" + (f" WHERE {newer}" if newer else "")


class PostgreSQL(_OnConflict):
    """PostgreSQL 12 and later."""

    name: ClassVar[str] = "PostgreSQL"
    jars: ClassVar[tuple[str, ...]] = ("postgresql",)
    # Text is sent without a type, so that it becomes uuid, jsonb or an enum where the column is one.
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

    def type_of(self, kind: DataType) -> str | None:
        """Arrays have the type of their elements."""
        if kind.typeName() == "array":
            inside = self.type_of(kind.elementType)  # type: ignore[attr-defined]
            return f"{inside}[]" if inside else None
        return super().type_of(kind)

    def staging(self, connection: Connection, made: Name, like: Name, columns: Sequence[str]) -> str | None:
        """Without a log: what is in it after a crash is not used."""
        chosen = f"SELECT {_numbered(connection, columns)} FROM {connection.quoted(like)}"  # noqa: S608
        return f"CREATE UNLOGGED TABLE {connection.quoted(made)} AS {chosen} WITH NO DATA"


class SQLite(_OnConflict):
    """SQLite 3.24 and later: a file of one machine, with one writer at a time; dates and times are ISO text."""

    name: ClassVar[str] = "SQLite"
    jars: ClassVar[tuple[str, ...]] = ("sqlite",)
    one_writer: ClassVar[bool] = True
    # Wait for another writer instead of failing, also when a transaction has only read so far.
    properties: ClassVar[Mapping[str, str]] = {"busy_timeout": "30000", "transaction_mode": "IMMEDIATE"}
    types: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(["tinyint", "smallint", "int", "bigint", "boolean"], "INTEGER"),
        **dict.fromkeys(["float", "double"], "REAL"),
        **dict.fromkeys(["string", "date", "timestamp", "timestamp_ntz"], "TEXT"),
        "decimal": "NUMERIC",
        "binary": "BLOB",
    }

    def takes(self, column: Column, kind: DataType) -> bool:
        """By the affinity that the declared type gives a column."""
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

    def as_written(self, rows: DataFrame) -> DataFrame:
        """Dates and times as text that sorts: the driver would write milliseconds."""
        from pyspark.sql import functions as F  # noqa: N812

        def text(name: str, kind: str) -> Any:
            if kind.startswith("timestamp"):
                return F.date_format(column(name), "yyyy-MM-dd HH:mm:ss.SSSSSS").alias(name)
            return column(name).cast("string").alias(name) if kind == "date" else column(name)

        return rows.select(*(text(field.name, field.dataType.simpleString()) for field in rows.schema))

    def staging(self, connection: Connection, made: Name, like: Name, columns: Sequence[str]) -> str | None:
        """Columns of the same affinity."""
        chosen = f"SELECT {_numbered(connection, columns)} FROM {connection.quoted(like)}"  # noqa: S608
        return f"CREATE TABLE {connection.quoted(made)} AS {chosen} WHERE 0"

    def read_options(self, connection: Connection, selection: str) -> dict[str, str]:
        """An INTEGER has eight bytes and a REAL too, of which Spark would read four."""
        words = {"INTEGER": "bigint", "REAL": "double"}
        found = connection.types(f"SELECT * FROM {selection} WHERE 0")  # noqa: S608
        wide = [(name, words[_affinity(kind.upper())]) for name, kind in found if _affinity(kind.upper()) in words]
        return {"customSchema": ", ".join(f"{quote(name)} {kind}" for name, kind in wide)} if wide else {}


def _numbered(connection: Connection, columns: Sequence[str]) -> str:
    """The columns of a table, and a number that it does not have."""
    *own, number = columns
    return ", ".join([*map(connection.quoted, own), f"CAST(0 AS BIGINT) AS {connection.quoted(number)}"])


def _affinity(declared: str) -> str:
    """SQLite's own rules, in their order."""
    words = {"INT": "INTEGER", "CHAR": "TEXT", "CLOB": "TEXT", "TEXT": "TEXT", "BLOB": "BLOB"}
    words |= {"REAL": "REAL", "FLOA": "REAL", "DOUB": "REAL"}
    if not declared:
        return ""
    return next((affinity for word, affinity in words.items() if word in declared), "NUMERIC")


def _holds(column: Column, before: int, after: int) -> bool:
    if column.code not in _DECIMAL:
        return False
    unbounded = column.size == 0 or column.size > _MOST_DIGITS
    return unbounded or (before <= column.size - column.scale and after <= column.scale)


DATABASES: Mapping[str, Database] = {"jdbc:postgresql:": PostgreSQL(), "jdbc:sqlite:": SQLite()}


def database(url: str) -> Database:
    """What is known of the database that a URL names."""
    return next((known for prefix, known in DATABASES.items() if url.startswith(prefix)), Database())
