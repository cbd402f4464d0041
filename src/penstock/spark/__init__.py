"""The one door to Spark: columns, sessions, Spark's internals, Spark's errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.options import quote

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructType


def column(name: str) -> Column:
    """The column of this name, whatever characters it has."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.col(quote(name))


def name_types(schema: StructType) -> dict[str, str]:
    """The columns with Spark's `simpleString` of their types."""
    return {field.name: field.dataType.simpleString() for field in schema}
