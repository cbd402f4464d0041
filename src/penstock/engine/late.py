"""Late rows, counted before Spark drops them.

Spark drops rows behind the watermark after it has summed them up in part, and counts what is left: three late rows of
one group are one. So each aggregation over event time gets an `observe` below it that counts the rows themselves:

    rows -> observe: count those whose window is closed -> aggregate

What "closed" means changes with every batch. The watermark in the plan is therefore a call, which Spark makes once
while it plans a batch, and puts its answer in as a constant.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penstock.model import Sink
from penstock.watch.snapshot import LATE
from penstock.watch.state import OPEN_WINDOWS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_DELAY = "spark.watermarkDelayMs"
_STATEFUL = ("Aggregate", "Deduplicate", "DeduplicateWithinWatermark", "Join", "TransformWithState", "FlatMapGroups")


def counted(sink: Sink, rows: DataFrame) -> DataFrame:
    """The same rows; every batch's report then has the number of those that came too late for an aggregation."""
    if sink.mode == "complete" or sink.trigger.kind in ("continuous", "real-time"):
        # Nothing is dropped in mode complete, and the other engines know no `observe`.
        return rows
    from pyspark.sql.classic.dataframe import DataFrame

    spark: Any = rows.sparkSession
    plan = _Rewriter(spark, sink.name).rewritten(rows._jdf.queryExecution().analyzed())
    return DataFrame(spark._jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, plan), spark)


class _Rewriter:
    """Puts the counting below the aggregations that read rows as they come in."""

    def __init__(self, spark: SparkSession, query: str) -> None:
        self._spark: Any = spark
        self._query = query
        self._number = 0

    def rewritten(self, plan: Any) -> Any:
        """The plan with the counting in it. An aggregation of what another one gives has no late rows."""
        if not plan.isStreaming():
            return plan
        if _kind(plan) == "Aggregate" and not any(map(_is_stateful, _below(plan))):
            time = next(filter(_has_watermark, _all(plan.groupingExpressions())), None)
            return plan if time is None else self._with_children(plan, [self._counting(time, plan.child())])
        return self._with_children(plan, [self.rewritten(child) for child in _all(plan.children())])

    def _with_children(self, plan: Any, children: list[Any]) -> Any:
        return plan.withNewChildren(self._spark._jvm.PythonUtils.toSeq(children))

    def _counting(self, time: Any, child: Any) -> Any:
        from pyspark.sql import functions as F  # noqa: N812
        from pyspark.sql.classic.dataframe import DataFrame

        jvm = self._spark._jvm
        rows = DataFrame(
            jvm.org.apache.spark.sql.classic.Dataset.ofRows(self._spark._jsparkSession, child), self._spark
        )
        end, watermark = self._end(time), self._watermark() * 1000
        late, facts = end <= watermark, []
        windows = self._windows(child)
        if windows is not None:
            micros, slide = windows
            # A row of sliding windows is there once for each of them, and is late when the first of them is closed.
            late = late & (micros >= end - slide)
            facts = _open_windows(end, watermark, slide)
        self._number += 1
        observed = rows.observe(f"{LATE}{self._number}", F.count_if(late).alias("late"), *facts)
        return observed._jdf.queryExecution().analyzed()

    def _end(self, time: Any) -> Column:
        """The moment at which a row's group is closed, in microseconds."""
        is_window = time.dataType().typeName() == "struct"
        expressions = self._spark._jvm.org.apache.spark.sql.catalyst.expressions
        none = getattr(getattr(self._spark._jvm.scala, "None$"), "MODULE$")
        end = expressions.GetStructField(time, 1, none) if is_window else time
        long = self._spark._jvm.org.apache.spark.sql.types.DataTypes.LongType
        return self._column(expressions.PreciseTimestampConversion(end, end.dataType(), long))

    def _windows(self, child: Any) -> tuple[Column, int] | None:
        """The row's own time and the slide of its windows, in microseconds; None if the windows have no fixed grid."""
        for plan in [child, *_below(child)]:
            made = _all(plan.projections().head()) if _kind(plan) == "Expand" else []
            made = _all(plan.projectList()) if _kind(plan) == "Project" else made
            inside = [each for expression in made for each in _expressions(expression)]
            slide = next((each.right().value() for each in inside if _kind(each) == "Remainder"), None)
            if slide is not None:
                # The innermost conversion is that of the time column itself.
                micros = [each for each in inside if _kind(each) == "PreciseTimestampConversion"][-1]
                return self._column(micros), int(slide)
        return None

    def _watermark(self) -> Column:
        """The watermark that decides what is late in the batch that is being planned, in milliseconds."""
        from pyspark.java_gateway import ensure_callback_server_started

        gateway: Any = self._spark.sparkContext._gateway
        ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
        jvm = self._spark._jvm
        catalyst, types = jvm.org.apache.spark.sql.catalyst.expressions, jvm.org.apache.spark.sql.types
        interface = jvm.java.lang.Class.forName("java.util.function.LongSupplier")
        asked = catalyst.Literal(_Watermark(self._spark, self._query), types.ObjectType(interface))
        nothing = jvm.PythonUtils.toSeq([])
        call = catalyst.objects.Invoke(
            asked, "getAsLong", types.DataTypes.LongType, nothing, nothing, True, False, True
        )
        return self._column(call)

    def _column(self, expression: Any) -> Column:
        from pyspark.sql.classic.column import Column

        return Column(self._spark._jvm.org.apache.spark.sql.classic.ExpressionUtils.column(expression))


class _Watermark:
    """A `LongSupplier` for the JVM: Spark decides what is late by the watermark of the batch before."""

    def __init__(self, spark: SparkSession, query: str) -> None:
        self._spark, self._query = spark, query

    def getAsLong(self) -> int:  # noqa: N802
        """The watermark in milliseconds; zero before there is one."""
        running: Any = next((query for query in self._spark.streams.active if query.name == self._query), None)
        if running is None:
            return 0
        execution = running._jsq.streamingQuery()
        before = execution.offsetLog().get(execution.getLatestExecutionContext().batchId() - 1)
        return int(before.get().metadataOpt().get().batchWatermarkMs()) if before.isDefined() else 0

    def hashCode(self) -> int:  # noqa: N802
        """Plans are compared and put into maps."""
        return id(self) % 2**31

    def equals(self, other: object) -> bool:
        """Each query has its own."""
        return self is other

    def toString(self) -> str:  # noqa: N802
        """As it is shown in a plan."""
        return "watermark"

    class Java:
        """What the JVM takes it for."""

        implements = ("java.util.function.LongSupplier",)


def _open_windows(end: Column, watermark: Column, slide: int) -> list[Column]:
    """The windows of a batch that stay open, as bits: the n-th is the n-th window that ends after the watermark."""
    from pyspark.sql import functions as F  # noqa: N812

    place = F.least(F.lit(OPEN_WINDOWS - 1), F.floor((end - watermark - 1) / slide)).cast("int")
    bit = F.call_function("shiftleft", F.lit(1).cast("long"), place)
    is_open = end > watermark
    return [
        F.bit_or(F.when(is_open, bit)).alias("open"),
        F.min(F.when(is_open, end)).alias("oldest"),
        F.max(F.lit(slide)).alias("slide"),
    ]


def _kind(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def _is_stateful(plan: Any) -> bool:
    kind = _kind(plan)
    if kind == "Join":
        return all(child.isStreaming() for child in _all(plan.children()))
    return plan.isStreaming() and kind.startswith(_STATEFUL)


def _has_watermark(grouping: Any) -> bool:
    return _kind(grouping) == "AttributeReference" and grouping.metadata().contains(_DELAY)


def _all(found: Any) -> list[Any]:
    return [found.apply(number) for number in range(found.length())]


def _below(plan: Any) -> Iterator[Any]:
    for child in _all(plan.children()):
        yield child
        yield from _below(child)


def _expressions(expression: Any) -> Iterator[Any]:
    yield expression
    for child in _all(expression.children()):
        yield from _expressions(child)
