"""CQL types and the Spark types that hold the same values."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock import cql
from penstock.errors import BuildError, PenstockError, UnreachableError
from penstock.text import Waiting, did_you_mean, join_words, nearest

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType


_WHOLE = ("tinyint", "smallint", "int", "bigint", "varint")

#: CQL types that each Spark type can be written to; only a timestamp loses its microseconds.
_WRITTEN = {
    "string": ("text", "varchar", "ascii", "uuid", "timeuuid", "inet"),
    "byte": _WHOLE,
    "short": _WHOLE[1:],
    "integer": _WHOLE[2:],
    "long": (*_WHOLE[3:], "time"),
    "float": ("float", "double"),
    "double": ("double",),
    "boolean": ("boolean",),
    "binary": ("blob",),
    "date": ("date",),
    "timestamp": ("timestamp",),
}

#: The Spark type that each CQL type is read as.
_READ = {
    "text": "string",
    "varchar": "string",
    "ascii": "string",
    "uuid": "string",
    "timeuuid": "string",
    "inet": "string",
    "tinyint": "tinyint",
    "smallint": "smallint",
    "int": "int",
    "bigint": "bigint",
    "counter": "bigint",
    "time": "bigint",
    "varint": "decimal(38,0)",
    "decimal": "decimal(38,18)",
    "float": "float",
    "double": "double",
    "boolean": "boolean",
    "blob": "binary",
    "date": "date",
    "timestamp": "timestamp",
}


@dataclass(frozen=True)
class CqlType:
    """A CQL type with its element types; `frozen` is dropped, as it does not change the values."""

    name: str
    inside: tuple[CqlType, ...] = ()

    @classmethod
    def parse(cls, text: str) -> CqlType:
        """Parse `map<text, frozen<list<int>>>`."""
        name, bracket, rest = text.strip().partition("<")
        if not bracket:
            return cls(name.strip().lower())
        inside = tuple(cls.parse(part) for part in _parts(rest.rpartition(">")[0]))
        return inside[0] if name.strip().lower() == "frozen" else cls(name.strip().lower(), inside)

    @property
    def spark(self) -> str | None:
        """The Spark type that it is read as; None if it cannot be read."""
        inside = [each.spark for each in self.inside]
        if None in inside:
            return None
        if self.name in ("list", "set"):
            return f"array<{inside[0]}>"
        if self.name == "map":
            return f"map<{inside[0]},{inside[1]}>"
        return _READ.get(self.name)

    def takes(self, kind: DataType) -> bool:
        """Whether values of a Spark type can be written to it."""
        found: Any = kind
        name = kind.typeName()
        if name == "array":
            return self.name in ("list", "set") and self.inside[0].takes(found.elementType)
        if name == "map":
            return self.name == "map" and self.inside[0].takes(found.keyType) and self.inside[1].takes(found.valueType)
        if name == "struct":
            # A user-defined type: the connector matches its fields by name.
            return self.name == "tuple" or (self.name not in _READ and not self.inside)
        if name == "decimal":
            return self.name == "decimal" or (self.name == "varint" and found.scale == 0)
        return self.name in _WRITTEN.get(name, ())


def cql_for(kind: DataType) -> str | None:
    """The CQL type of a new column for a Spark type; None if there is none."""
    found: Any = kind
    name = kind.typeName()
    inside: list[str | None]
    if name == "array":
        inside = [cql_for(found.elementType)]
        return f"frozen<list<{inside[0]}>>" if inside[0] else None
    if name == "map":
        inside = [cql_for(found.keyType), cql_for(found.valueType)]
        return f"frozen<map<{inside[0]}, {inside[1]}>>" if all(inside) else None
    if name == "decimal":
        return "decimal"
    return _WRITTEN[name][0] if name in _WRITTEN else None


def _parts(text: str) -> list[str]:
    """Split at commas outside of brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "<") - (letter == ">")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


_RETRY_SECONDS = 1.0


@dataclass(frozen=True)
class Access:
    """A cluster, and the user that connects."""

    hosts: str
    user: str = ""
    password: str = ""
    consistency: str = "LOCAL_QUORUM"

    @contextmanager
    def session(
        self,
        wait_seconds: float = 10.0,
        print_status: Callable[[str], None] = lambda _: None,
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> Iterator[Any]:
        """A session, closed at the end; waits for a node at most this long, or until `is_stopped`."""
        cql.require_driver()
        session = self._connect(wait_seconds, print_status, is_stopped)
        try:
            yield session
        finally:
            session.cluster.shutdown()

    def _connect(self, wait_seconds: float, print_status: Callable[[str], None], is_stopped: Callable[[], bool]) -> Any:
        from cassandra import AuthenticationFailed, DriverException
        from cassandra.cluster import NoHostAvailable

        deadline = time.monotonic() + wait_seconds
        while True:
            try:
                return cql.connect(self.hosts, self.user, self.password, self.consistency)
            except NoHostAvailable as error:
                if any(isinstance(each, AuthenticationFailed) for each in error.errors.values()):
                    raise self._login_error() from error
                why: Exception = error
            except DriverException as error:
                why = error
            left = deadline - time.monotonic()
            if left <= 0 or is_stopped():
                says = f"no Cassandra node answers at {self.hosts} after {wait_seconds:.0f} s"
                fix = "start it (penstock dev up cassandra runs one here) or correct 'hosts'"
                raise UnreachableError(f"{says}; {fix}") from why
            print_status(Waiting(f"waiting for Cassandra at {self.hosts} ({left:.0f} s left)"))
            time.sleep(min(_RETRY_SECONDS, left))

    def _login_error(self) -> PenstockError:
        if not self.user:
            return PenstockError(f"Cassandra at {self.hosts} requires a login; set 'user' and 'password'")
        return PenstockError(f"Cassandra at {self.hosts} refuses user {self.user!r}; check 'user' and 'password'")


@dataclass(frozen=True)
class Table:
    """The columns of a table with their CQL types, and its primary key."""

    name: str
    columns: Mapping[str, str]
    partition_key: tuple[str, ...]
    clustering_key: tuple[str, ...]

    @property
    def key(self) -> tuple[str, ...]:
        """The whole primary key."""
        return self.partition_key + self.clustering_key

    @property
    def readable(self) -> list[str]:
        """The columns whose types Spark can read."""
        return [name for name in self.columns if self.type(name).spark]

    def type(self, column: str) -> CqlType:
        """The type of a column."""
        return CqlType.parse(self.columns[column])


def find(session: Any, hosts: str, name: str, fix: str = "create it first") -> Table:
    """The table `keyspace.table`; an error names the nearest if it does not exist."""
    keyspace, _, table = name.partition(".")
    keyspaces = session.cluster.metadata.keyspaces
    if keyspace not in keyspaces:
        own = [each for each in keyspaces if not each.startswith("system")]
        near = nearest(keyspace, own)
        raise BuildError(
            f"Cassandra at {hosts} has no keyspace {keyspace!r}; {f'did you mean {near!r}?' if near else fix}"
        )
    tables = keyspaces[keyspace].tables
    if table not in tables:
        near = nearest(table, tables)
        raise BuildError(f"keyspace {keyspace!r} has no table {table!r}; {f'did you mean {near!r}?' if near else fix}")
    found = tables[table]
    return Table(
        name,
        {column.name: column.cql_type for column in found.columns.values()},
        tuple(column.name for column in found.partition_key),
        tuple(column.name for column in found.clustering_key),
    )


@dataclass(frozen=True)
class TablePlan:
    """How to create a table."""

    key: tuple[str, ...]
    order: tuple[str, ...] = ()
    replication: int | Mapping[str, int] = 1

    def create(self, session: Any, name: str, schema: StructType) -> None:
        """Create the keyspace and the table if they do not exist."""
        keyspace, _, table = name.partition(".")
        session.execute(f"CREATE KEYSPACE IF NOT EXISTS {cql.quote(keyspace)} WITH replication = {self._replication()}")
        full = f"{cql.quote(keyspace)}.{cql.quote(table)}"
        session.execute(f"CREATE TABLE IF NOT EXISTS {full} ({self._columns(schema)}){self._ordering()}")

    def clustering_columns(self) -> tuple[str, ...]:
        """The columns that order the rows of a partition."""
        return tuple(each.split()[0] for each in self.order)

    def _columns(self, schema: StructType) -> str:
        names = schema.names
        unknown = [name for name in (*self.key, *self.clustering_columns()) if name not in names]
        if unknown:
            raise BuildError(f"'create' has {_quote_names(unknown)} in its key; {did_you_mean(unknown[0], names)}")
        kinds = {field.name: cql_for(field.dataType) for field in schema}
        odd = [f"{field.name!r} ({field.dataType.simpleString()})" for field in schema if kinds[field.name] is None]
        if odd:
            fix = "cast it, leave it out, or create the table yourself"
            raise BuildError(f"Cassandra has no type for column {join_words(odd, 'and')}; {fix}")
        partition = ", ".join(map(cql.quote, self.key))
        rest = "".join(f", {cql.quote(name)}" for name in self.clustering_columns())
        columns = ", ".join(f"{cql.quote(name)} {kind}" for name, kind in kinds.items())
        return f"{columns}, PRIMARY KEY (({partition}){rest})"

    def _ordering(self) -> str:
        words = [each.split() for each in self.order]
        by = ", ".join(f"{cql.quote(each[0])} {each[1] if len(each) > 1 else 'asc'}" for each in words)
        return f" WITH CLUSTERING ORDER BY ({by})" if by else ""

    def _replication(self) -> str:
        if isinstance(self.replication, int):
            return f"{{'class': 'SimpleStrategy', 'replication_factor': {self.replication}}}"
        centers = "".join(f", '{name}': {count}" for name, count in self.replication.items())
        return f"{{'class': 'NetworkTopologyStrategy'{centers}}}"


def require_readable(table: Table, declared: StructType) -> None:
    """Raise an error that names every declared column that is missing in the table or has another type there."""
    found = []
    for field in declared:
        if field.name not in table.columns:
            found.append(f"{field.name!r} is not a column of the table; {did_you_mean(field.name, table.columns)}")
        elif not _is_readable_as(table.type(field.name), field.dataType):
            kind = table.type(field.name)
            declared_as, there = field.dataType.simpleString(), table.columns[field.name]
            says = f"{field.name!r} is declared {declared_as}, and the table has {there}"
            found.append(f"{says}; {f'declare it {kind.spark}' if kind.spark else 'leave it out'}")
    if found:
        raise BuildError("\n  ".join([f"table {table.name} does not match 'schema':", *found]))


def _is_readable_as(kind: CqlType, declared: Any) -> bool:
    if declared.typeName() == "decimal":
        return kind.name in ("decimal", "varint")
    return bool(kind.spark == declared.simpleString())


def diff_schema(table: Table, schema: StructType) -> list[str]:
    """Every reason why the table cannot take the rows, each with what to do."""
    names = schema.names
    found = [
        f"column {name!r} is a counter, and a replayed batch would count twice; write totals to a bigint instead"
        for name, kind in table.columns.items()
        if CqlType.parse(kind).name == "counter"
    ]
    found += [
        f"{name!r} ({table.columns[name]}) is in the table's key, and the rows do not have it; "
        f"{_suggest_column(name, names)}"
        for name in table.key
        if name not in names
    ]
    for field in schema:
        if field.name not in table.columns:
            kind = cql_for(field.dataType)
            near = nearest(field.name, [name for name in table.columns if name not in names])
            adding = f"ALTER TABLE {table.name} ADD {cql.quote(field.name)} {kind}, or leave it out of the rows"
            fix = f"did you mean {near!r}?" if near else adding if kind else "leave it out of the rows"
            found.append(f"{field.name!r} is not a column of the table; {fix}")
        elif not table.type(field.name).takes(field.dataType):
            kind = table.columns[field.name]
            says = f"{field.name!r} is {field.dataType.simpleString()}, and the table has {kind}"
            found.append(f"{says}; {_suggest_cast(field.name, CqlType.parse(kind))}")
    return found


def _suggest_column(name: str, names: list[str]) -> str:
    near = nearest(name, names)
    return f"write {near} AS {name}" if near else "add it to the SELECT"


def _suggest_cast(name: str, kind: CqlType) -> str:
    return f"write CAST({name} AS {kind.spark}) AS {name}" if kind.spark else "leave it out of the rows"


def _quote_names(names: list[str]) -> str:
    return join_words((repr(name) for name in names), "and")
