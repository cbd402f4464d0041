"""Comparison of rows with a table's columns, before the first batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.errors import BuildError
from penstock.spark import column
from penstock.text import did_you_mean

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructType


def describe_replay(mode: str, key: Sequence[str], latest_by: str | None) -> str:
    """What a table does with rows that it gets again after a reset."""
    if mode == "complete":
        return "is replaced as a whole"
    if not key:
        return "gets the rows again, in addition to those that it has"
    return f"replaces the rows of the same keys{', unless it has later ones' if latest_by else ''}"


@dataclass(frozen=True)
class TableColumn:
    """A column of the table."""

    name: str
    type: str
    """As the table names it."""
    required: bool
    """Whether every row needs a value for it."""
    takes: Callable[[DataType], bool]


@dataclass(frozen=True)
class SchemaDiff:
    """The differences between rows and a table, each part in the order of the rows or of the table."""

    missing: tuple[TableColumn, ...]
    extra: tuple[str, ...]
    mistyped: tuple[str, ...]

    @classmethod
    def compare(cls, schema: StructType, columns: Sequence[TableColumn]) -> SchemaDiff:
        """Compare by name, ignoring case, as SQL does."""
        ours = {field.name.lower(): field for field in schema}
        theirs = {column.name.lower(): column for column in columns}
        return cls(
            missing=tuple(column for name, column in theirs.items() if name not in ours),
            extra=tuple(
                f"{field.name} {field.dataType.simpleString()}" for n, field in ours.items() if n not in theirs
            ),
            mistyped=tuple(
                f"{field.name} is {field.dataType.simpleString()} in the rows and {theirs[name].type} in the table"
                for name, field in ours.items()
                if name in theirs and not theirs[name].takes(field.dataType)
            ),
        )

    def refuse(self, table: str, *, missing: Sequence[TableColumn], extra: bool, fix: str) -> None:
        """Raise an error that names these missing columns, the extra ones if they count, and every mistyped one."""
        parts = []
        if missing:
            parts.append("missing in the rows: " + ", ".join(f"{column.name} {column.type}" for column in missing))
        if extra and self.extra:
            parts.append("not in the table: " + ", ".join(self.extra))
        parts += self.mistyped
        if parts:
            raise BuildError(f"the rows do not match {table}: {'; '.join(parts)}; {fix}")


def require_columns(columns: Mapping[str, str], option: str, names: Iterable[str], *, exact: bool = True) -> None:
    """Raise an error if an option names a column that the rows do not have; `exact=False` ignores case like Spark."""
    have = list(columns)
    for name in names:
        if name not in have and (exact or name.lower() not in [each.lower() for each in have]):
            raise BuildError(f"'{option}' names {name!r}, which the rows do not have; {did_you_mean(name, have)}")


def widens(found: DataType, wanted: DataType) -> bool:
    """Whether every value of one type is also a value of the other."""
    from pyspark.sql import types as t

    if found.simpleString() == wanted.simpleString():
        return True
    whole = [t.ByteType, t.ShortType, t.IntegerType, t.LongType]
    ranks: dict[Any, int] = {kind: rank for rank, kind in enumerate(whole)}
    digits: dict[Any, int] = {t.ByteType: 3, t.ShortType: 5, t.IntegerType: 10, t.LongType: 20}
    if isinstance(wanted, t.DecimalType):
        before = wanted.precision - wanted.scale
        if isinstance(found, t.DecimalType):
            return found.precision - found.scale <= before and found.scale <= wanted.scale
        return type(found) in digits and digits[type(found)] <= before
    if isinstance(wanted, t.DoubleType):
        return isinstance(found, t.FloatType | t.ByteType | t.ShortType | t.IntegerType)
    return type(found) in ranks and type(wanted) in ranks and ranks[type(found)] < ranks[type(wanted)]


def one_per_key(rows: DataFrame, key: Sequence[str], latest_by: str | None) -> DataFrame:
    """One row for each key of a batch: the one with the greatest `latest_by`; without it, two rows are an error."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    same_key = Window.partitionBy(*(column(name) for name in key))
    if latest_by is None:
        key_json = F.to_json(F.struct(*(column(name) for name in key)))
        says = F.concat(F.lit("several rows of one batch have the key "), key_json)
        fix = F.lit("; name the column that says which is the newest in 'latest_by', or add columns to 'key'")
        alone = F.when(F.count(F.lit(1)).over(same_key) == 1, F.lit(True)).otherwise(F.raise_error(F.concat(says, fix)))
        return _filter(rows, alone)
    # Ties are broken by the rows' content, so that a replayed batch keeps the same one.
    content = F.xxhash64(*(column(field.name) for field in rows.schema if _has_hash(field.dataType)))
    newest_first = same_key.orderBy(column(latest_by).desc_nulls_last(), content)
    return _filter(rows, F.row_number().over(newest_first) == 1)


def refuse_null_keys(rows: DataFrame, key: Sequence[str]) -> DataFrame:
    """The same rows; a null in the key is an error, because null keys never match."""
    from pyspark.sql import functions as F  # noqa: N812

    row = F.to_json(F.struct(*(column(name) for name in key)), {"ignoreNullFields": "false"})
    says = F.concat(F.lit("a row has no value in its key "), row, F.lit("; leave such rows out with 'where'"))
    missing = F.lit(False)
    for name in key:
        missing = missing | column(name).isNull()
    return rows.where(F.when(missing, F.raise_error(says).cast("boolean")).otherwise(F.lit(True)))


def _filter(rows: DataFrame, condition: Any) -> DataFrame:
    names = [column(name) for name in rows.columns]
    return rows.withColumn("_penstock_kept", condition).where("_penstock_kept").select(*names)


def _has_hash(kind: DataType) -> bool:
    return "map<" not in kind.simpleString()
