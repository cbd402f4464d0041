"""The one door to Spark: columns, sessions, Spark's internals, Spark's errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.options import quote

if TYPE_CHECKING:
    from pyspark.sql import Column


def column(name: str) -> Column:
    """The column of this name, whatever characters it has."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.col(quote(name))
