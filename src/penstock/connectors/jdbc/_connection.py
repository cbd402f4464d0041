"""A connection to a database through its JDBC driver, opened by the driver's JVM; values never become SQL text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from penstock.errors import BuildError, UnreachableError

# Classes of SQLSTATE that another try can get past: connections, conflicts, resources, locks, operators.
_PASSING = ("08", "40", "53", "55", "57", "58")
_COLUMN = (
    *("COLUMN_NAME", "DATA_TYPE", "TYPE_NAME", "COLUMN_SIZE", "DECIMAL_DIGITS", "IS_NULLABLE", "COLUMN_DEF"),
    *("IS_AUTOINCREMENT", "IS_GENERATEDCOLUMN"),
)
_NAME = re.compile(r'"(?:[^"]|"")+"|[^."]+')


@dataclass(frozen=True)
class Column:
    """A column as the driver describes it."""

    name: str
    code: int
    """One of java.sql.Types."""
    type: str
    size: int
    scale: int
    required: bool
    """Whether a row without it is refused."""
    filled: bool
    """Whether the database has a value for it."""


@dataclass(frozen=True)
class Name:
    """The name of a table, maybe in a schema, in the spelling of the database."""

    schema: str | None
    table: str

    @classmethod
    def of(cls, text: str) -> Name:
        """`table` or `schema.table`; a name with a dot in it stands in double quotes."""
        parts = _NAME.findall(text)
        if ".".join(parts) != text or len(parts) not in (1, 2):
            raise ValueError(f"{text!r} is not a table; write 'table' or 'schema.table', a name with a dot in quotes")
        plain = [part[1:-1].replace('""', '"') if part.startswith('"') else part for part in parts]
        return cls(plain[0] if len(plain) == 2 else None, plain[-1])

    def beside(self, table: str) -> Name:
        """Another table of the same schema."""
        return Name(self.schema, table)

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}" if self.schema else self.table


class Connection:
    """One connection; nothing is kept that is not committed."""

    def __init__(self, jvm_connection: Any) -> None:
        self._java = jvm_connection
        self._meta = jvm_connection.getMetaData()
        self._quote = str(self._meta.getIdentifierQuoteString()).strip() or '"'

    def quoted(self, name: Name | str) -> str:
        """A name as SQL holds it, whatever it is."""
        parts = [name] if isinstance(name, str) else [part for part in (name.schema, name.table) if part]
        return ".".join(f"{self._quote}{part.replace(self._quote, self._quote * 2)}{self._quote}" for part in parts)

    def execute(self, sql: str, *values: str | int) -> int:
        """How many rows a statement changed."""
        with self._statement(sql, values) as statement:
            return int(statement.executeUpdate())

    def first(self, sql: str, *values: str | int) -> str | None:
        """The first value of the first row, as text; None if there is none."""
        with self._statement(sql, values) as statement:
            found = statement.executeQuery()
            return found.getString(1) if found.next() else None

    def types(self, sql: str) -> list[tuple[str, str]]:
        """Name and type of the columns that a query gives."""
        with self._statement(sql, ()) as statement:
            meta = statement.executeQuery().getMetaData()
            return [(meta.getColumnLabel(at), meta.getColumnTypeName(at)) for at in range(1, meta.getColumnCount() + 1)]

    @contextmanager
    def transaction(self, isolation: int | None = None) -> Iterator[None]:
        """Everything inside becomes true at once, or nothing does."""
        if isolation is not None:
            self._java.setTransactionIsolation(isolation)
        self._java.setAutoCommit(False)
        try:
            yield
            self._java.commit()
        except BaseException:
            self._java.rollback()
            raise
        finally:
            self._java.setAutoCommit(True)

    def find(self, asked: Name) -> Name | None:
        """The table in the spelling of the database, which may keep names in upper or lower case."""
        schema = asked.schema or self._java.getSchema()
        for spelled in dict.fromkeys([asked.table, asked.table.lower(), asked.table.upper()]):
            for owner in dict.fromkeys([schema, *([schema.upper()] if schema else [])]):
                if self._described(self._meta.getColumns, owner, spelled):
                    return Name(owner, spelled)
        return None

    def tables(self, schema: str | None, prefix: str) -> list[Name]:
        """The tables of a schema whose names begin like this."""
        found = _rows(
            self._meta.getTables(None, self._exactly(schema), f"{self._exactly(prefix)}%", None), "TABLE_NAME"
        )
        return [Name(schema, row["TABLE_NAME"]) for row in found]

    def columns(self, table: Name) -> list[Column]:
        """The columns of a table, in their order."""
        return [
            Column(
                name=row["COLUMN_NAME"],
                code=int(row["DATA_TYPE"]),
                type=row["TYPE_NAME"],
                size=int(row["COLUMN_SIZE"] or 0),
                scale=int(row["DECIMAL_DIGITS"] or 0),
                required=row["IS_NULLABLE"] == "NO" and not _filled(row),
                filled=_filled(row),
            )
            for row in self._described(self._meta.getColumns, table.schema, table.table)
        ]

    def unique(self, table: Name) -> list[frozenset[str]]:
        """The sets of columns whose values occur once: the primary key first, then unique indexes."""
        keys = _rows(self._meta.getPrimaryKeys(None, table.schema, table.table), "COLUMN_NAME")
        found = [frozenset(row["COLUMN_NAME"] for row in keys)] if keys else []
        wanted = ("INDEX_NAME", "COLUMN_NAME", "FILTER_CONDITION")
        indexes: dict[str, list[str]] = {}
        for row in _rows(self._meta.getIndexInfo(None, table.schema, table.table, True, True), *wanted):
            # A partial index says nothing about the rows outside of it; one without a name is a statistic.
            if row["INDEX_NAME"] and row["COLUMN_NAME"] and not row["FILTER_CONDITION"]:
                indexes.setdefault(row["INDEX_NAME"], []).append(row["COLUMN_NAME"])
        return list(dict.fromkeys([*found, *map(frozenset, indexes.values())]))

    def close(self) -> None:
        """Give the connection back."""
        self._java.close()

    def _described(self, ask: Any, schema: str | None, table: str) -> list[dict[str, Any]]:
        found = ask(None, self._exactly(schema), self._exactly(table), "%")
        rows = _rows(found, "TABLE_NAME", *_COLUMN)
        return [row for row in rows if row["TABLE_NAME"] == table]

    def _exactly(self, text: str | None) -> str | None:
        """A name where the driver takes a pattern; some drivers have no escape, so what they find is looked at too."""
        escape = str(self._meta.getSearchStringEscape() or "")
        return re.sub(r"([_%])", lambda found: escape + found[1], text) if text else text

    @contextmanager
    def _statement(self, sql: str, values: Sequence[str | int]) -> Iterator[Any]:
        statement = self._java.prepareStatement(sql)
        try:
            for at, value in enumerate(values, start=1):
                if isinstance(value, int):
                    statement.setLong(at, value)
                else:
                    statement.setString(at, value)
            yield statement
        finally:
            statement.close()


def _filled(row: Mapping[str, Any]) -> bool:
    return row["COLUMN_DEF"] is not None or "YES" in (row["IS_AUTOINCREMENT"], row["IS_GENERATEDCOLUMN"])


def _rows(found: Any, *names: str) -> list[dict[str, Any]]:
    rows = []
    try:
        meta = found.getMetaData()
        there = {str(meta.getColumnLabel(at)).upper() for at in range(1, meta.getColumnCount() + 1)}
        while found.next():
            rows.append({name: found.getString(name) if name in there else None for name in names})
    finally:
        found.close()
    return rows


@contextmanager
def connected(jvm: Any, options: Mapping[str, str], address: str) -> Iterator[Connection]:
    """A connection as Spark's own tasks open theirs; what the database refuses is said without the password."""
    from py4j.protocol import Py4JJavaError

    try:
        scala = jvm.PythonUtils.toScalaMap(dict(options))
        asked = jvm.org.apache.spark.sql.execution.datasources.jdbc.JDBCOptions(scala)
        opened = jvm.org.apache.spark.sql.jdbc.JdbcDialects.get(options["url"]).createConnectionFactory(asked).apply(-1)
    except Py4JJavaError as error:
        says = _hidden(_reason(error), options)
        raise UnreachableError(f"{address} cannot be opened: {says}; check 'url', 'user' and 'password'") from None
    connection = Connection(opened)
    try:
        yield connection
    except Py4JJavaError as error:
        says = _hidden(_reason(error), options)
        if _state(error).startswith(_PASSING):
            raise UnreachableError(f"{address} does not answer as it should: {says}") from None
        raise BuildError(f"{address} refused a statement: {says}") from None
    finally:
        connection.close()


def _reason(error: Any) -> str:
    cause = error.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    lines = str(cause.getMessage() or cause.toString()).split("\n")
    return " ".join(line.strip() for line in lines if line.strip())


def _state(error: Any) -> str:
    found = error.java_exception
    return str(found.getSQLState() or "") if hasattr(found, "getSQLState") else ""


def _hidden(text: str, options: Mapping[str, str]) -> str:
    for secret in filter(None, (options.get("password"), options["url"])):
        text = text.replace(secret, "***")
    return text
