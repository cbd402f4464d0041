"""A JDBC connection of the driver's JVM; values are always bound, never part of the SQL text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from penstock.errors import BuildError, UnreachableError

# SQLSTATE classes that a retry can get past: connections, conflicts, resources, locks, operators.
_TRANSIENT = ("08", "40", "53", "55", "57", "58")
_COLUMN_FIELDS = (
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
    """Whether a row needs a value for it."""
    has_default: bool
    """Whether the database fills it by itself."""


@dataclass(frozen=True)
class TableName:
    """The name of a table, optionally with a schema, in the database's spelling."""

    schema: str | None
    table: str

    @classmethod
    def parse(cls, text: str) -> TableName:
        """Parse `table` or `schema.table`; a name with a dot is in double quotes."""
        parts = _NAME.findall(text)
        if ".".join(parts) != text or len(parts) not in (1, 2):
            raise ValueError(f"{text!r} is not a table; write 'table' or 'schema.table', a name with a dot in quotes")
        plain = [part[1:-1].replace('""', '"') if part.startswith('"') else part for part in parts]
        return cls(plain[0] if len(plain) == 2 else None, plain[-1])

    def sibling(self, table: str) -> TableName:
        """Another table of the same schema."""
        return TableName(self.schema, table)

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}" if self.schema else self.table


class Connection:
    """One connection, with auto-commit outside of `transaction`."""

    def __init__(self, jvm_connection: Any) -> None:
        self._java = jvm_connection
        self._meta = jvm_connection.getMetaData()
        self._quote = str(self._meta.getIdentifierQuoteString()).strip() or '"'

    def quote(self, name: TableName | str) -> str:
        """A quoted identifier."""
        parts = [name] if isinstance(name, str) else [part for part in (name.schema, name.table) if part]
        return ".".join(f"{self._quote}{part.replace(self._quote, self._quote * 2)}{self._quote}" for part in parts)

    def execute(self, sql: str, *values: str | int) -> int:
        """Run a statement; returns how many rows it changed."""
        with self._statement(sql, values) as statement:
            return int(statement.executeUpdate())

    def first(self, sql: str, *values: str | int) -> str | None:
        """The first value of the first row, as text; None if there is none."""
        with self._statement(sql, values) as statement:
            found = statement.executeQuery()
            return found.getString(1) if found.next() else None

    def types(self, sql: str) -> list[tuple[str, str]]:
        """Name and type of a query's columns."""
        with self._statement(sql, ()) as statement:
            meta = statement.executeQuery().getMetaData()
            return [(meta.getColumnLabel(at), meta.getColumnTypeName(at)) for at in range(1, meta.getColumnCount() + 1)]

    @contextmanager
    def transaction(self, isolation: int | None = None) -> Iterator[None]:
        """Commit everything inside at once, or roll it back."""
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

    def find(self, name: TableName) -> TableName | None:
        """The table in the database's spelling, which may be all upper or all lower case; None if there is none."""
        schema = name.schema or self._java.getSchema()
        for table in dict.fromkeys([name.table, name.table.lower(), name.table.upper()]):
            for owner in dict.fromkeys([schema, *([schema.upper()] if schema else [])]):
                if self._describe_columns(self._meta.getColumns, owner, table):
                    return TableName(owner, table)
        return None

    def tables(self, schema: str | None, prefix: str) -> list[TableName]:
        """The tables of a schema whose names begin with a prefix."""
        found = _rows(
            self._meta.getTables(None, self._escape_pattern(schema), f"{self._escape_pattern(prefix)}%", None),
            "TABLE_NAME",
        )
        return [TableName(schema, row["TABLE_NAME"]) for row in found]

    def columns(self, table: TableName) -> list[Column]:
        """The columns of a table, in their order."""
        return [
            Column(
                name=row["COLUMN_NAME"],
                code=int(row["DATA_TYPE"]),
                type=row["TYPE_NAME"],
                size=int(row["COLUMN_SIZE"] or 0),
                scale=int(row["DECIMAL_DIGITS"] or 0),
                required=row["IS_NULLABLE"] == "NO" and not _has_default(row),
                has_default=_has_default(row),
            )
            for row in self._describe_columns(self._meta.getColumns, table.schema, table.table)
        ]

    def unique_keys(self, table: TableName) -> list[frozenset[str]]:
        """The unique sets of columns: the primary key first, then unique indexes."""
        keys = _rows(self._meta.getPrimaryKeys(None, table.schema, table.table), "COLUMN_NAME")
        found = [frozenset(row["COLUMN_NAME"] for row in keys)] if keys else []
        wanted = ("INDEX_NAME", "COLUMN_NAME", "FILTER_CONDITION")
        indexes: dict[str, list[str]] = {}
        for row in _rows(self._meta.getIndexInfo(None, table.schema, table.table, True, True), *wanted):
            # A partial index does not cover all rows; an entry without a name is a statistic.
            if row["INDEX_NAME"] and row["COLUMN_NAME"] and not row["FILTER_CONDITION"]:
                indexes.setdefault(row["INDEX_NAME"], []).append(row["COLUMN_NAME"])
        return list(dict.fromkeys([*found, *map(frozenset, indexes.values())]))

    def close(self) -> None:
        """Close the connection."""
        self._java.close()

    def _describe_columns(self, ask: Any, schema: str | None, table: str) -> list[dict[str, Any]]:
        found = ask(None, self._escape_pattern(schema), self._escape_pattern(table), "%")
        rows = _rows(found, "TABLE_NAME", *_COLUMN_FIELDS)
        return [row for row in rows if row["TABLE_NAME"] == table]

    def _escape_pattern(self, text: str | None) -> str | None:
        """Escape a name for a pattern argument; some drivers have no escape, so results are compared again."""
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


def _has_default(row: Mapping[str, Any]) -> bool:
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
def connect(jvm: Any, options: Mapping[str, str], address: str) -> Iterator[Connection]:
    """A connection opened as Spark's own tasks open theirs; errors do not show the password."""
    from py4j.protocol import Py4JJavaError

    try:
        scala = jvm.PythonUtils.toScalaMap(dict(options))
        jdbc_options = jvm.org.apache.spark.sql.execution.datasources.jdbc.JDBCOptions(scala)
        opened = (
            jvm.org.apache.spark.sql.jdbc.JdbcDialects.get(options["url"])
            .createConnectionFactory(jdbc_options)
            .apply(-1)
        )
    except Py4JJavaError as error:
        says = _redact(_reason(error), options)
        raise UnreachableError(f"{address} cannot be opened: {says}; check 'url', 'user' and 'password'") from None
    connection = Connection(opened)
    try:
        yield connection
    except Py4JJavaError as error:
        says = _redact(_reason(error), options)
        if _sql_state(error).startswith(_TRANSIENT):
            raise UnreachableError(f"{address} failed: {says}") from None
        raise BuildError(f"{address} refused a statement: {says}") from None
    finally:
        connection.close()


def _reason(error: Any) -> str:
    cause = error.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    lines = str(cause.getMessage() or cause.toString()).split("\n")
    return " ".join(line.strip() for line in lines if line.strip())


def _sql_state(error: Any) -> str:
    """The state of the innermost SQLException; '' if there is none. Py4J has every name: the class is asked."""
    found, state = error.java_exception, ""
    while found is not None:
        if any(method.getName() == "getSQLState" for method in found.getClass().getMethods()):
            state = str(found.getSQLState() or "")
        found = found.getCause()
    return state


def _redact(text: str, options: Mapping[str, str]) -> str:
    for secret in filter(None, (options.get("password"), options["url"])):
        text = text.replace(secret, "***")
    return text
