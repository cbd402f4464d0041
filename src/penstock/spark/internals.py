"""Spark's logical plans, walked from Python."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


def analyzed(rows: DataFrame) -> Any:
    """The analyzed plan of a DataFrame."""
    return rows._jdf.queryExecution().analyzed()


def dataframe(spark: SparkSession, plan: Any) -> DataFrame:
    """A DataFrame of a plan; Spark analyzes the plan first."""
    from pyspark.sql.classic.dataframe import DataFrame

    jvm: Any = spark._jvm
    return DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, plan), spark)


def column(spark: SparkSession, expression: Any) -> Column:
    """A Column of an expression."""
    from pyspark.sql.classic.column import Column

    jvm: Any = spark._jvm
    return Column(jvm.org.apache.spark.sql.classic.ExpressionUtils.column(expression))


def with_children(spark: SparkSession, plan: Any, children: list[Any]) -> Any:
    """The same node over other children."""
    jvm: Any = spark._jvm
    return plan.withNewChildren(jvm.PythonUtils.toSeq(children))


def kind(node: Any) -> str:
    """The name of a plan's or expression's class."""
    return str(node.getClass().getSimpleName())


def elements(sequence: Any) -> list[Any]:
    """A Scala sequence as a list."""
    return [sequence.apply(number) for number in range(sequence.length())]


def nodes(plan: Any) -> Iterator[Any]:
    """A plan or an expression and everything below it, from the top."""
    yield plan
    for child in elements(plan.children()):
        yield from nodes(child)


def streaming_leaves(plan: Any) -> list[Any]:
    """The sources of a query, once for each place where they are read."""
    return [leaf for leaf in elements(plan.collectLeaves()) if leaf.isStreaming()]
