"""What a query counts besides Spark's own numbers: late rows, and rows in when a source is read more than once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.model import Sink
from penstock.spark import internals as plans
from penstock.spark.errors import summary
from penstock.spark.internals import elements, kind, nodes
from penstock.watch.snapshot import LATE, ROWS_IN
from penstock.watch.state import OPEN_WINDOWS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


def add_counts(sink: Sink, rows: DataFrame, sources: Mapping[str, DataFrame], tell: Tell) -> DataFrame:
    """The same rows, counted on their way; as they are, with an event that says why, if that cannot be done."""
    if sink.trigger.kind in ("continuous", "real-time"):
        # These engines know no `observe`.
        return rows
    try:
        spark = rows.sparkSession
        plan = _count_rows_in(spark, plans.analyzed(rows), sources)
        if sink.mode != "complete":
            # Nothing is dropped in mode complete.
            plan = LateRows(spark, sink.name, plan, tell).add()
        return plans.dataframe(spark, plan)
    except Exception as error:  # whatever a plan holds that is not foreseen here: counting never stops a query
        tell("not_counted", sink=sink.name, reason=summary(error))
        return rows


def _count_rows_in(spark: SparkSession, plan: Any, sources: Mapping[str, DataFrame]) -> Any:
    """Count the rows of each source where Spark would count them once for each branch that reads it."""
    leaves = plans.streaming_leaves(plan)
    origins = [_origin(spark, leaf) for leaf in leaves]
    if len(set(origins)) == len(origins):
        return plan
    names = _names(spark, sources)
    counters = {
        origin: _counter(spark, names.get(origin, str(number)), leaf)
        for number, (origin, leaf) in enumerate(zip(origins, leaves, strict=True))
    }
    return _over_leaves(spark, plan, counters)


def _over_leaves(spark: SparkSession, plan: Any, counters: Mapping[int, Any]) -> Any:
    if not plan.isStreaming():
        return plan
    children = plans.elements(plan.children())
    if not children:
        # One counter for all branches: metrics of one name must be copies of one node, and are reported once.
        return plans.with_children(spark, counters[_origin(spark, plan)], [plan])
    return plans.with_children(spark, plan, [_over_leaves(spark, child, counters) for child in children])


def _counter(spark: SparkSession, name: str, leaf: Any) -> Any:
    from pyspark.sql import functions as F  # noqa: N812

    observed = plans.dataframe(spark, leaf).observe(f"{ROWS_IN}{name}", F.count(F.lit(1)).alias("rows"))
    return plans.analyzed(observed)


def _names(spark: SparkSession, sources: Mapping[str, DataFrame]) -> dict[int, str]:
    return {
        _origin(spark, leaf): name
        for name, rows in sources.items()
        for leaf in plans.streaming_leaves(plans.analyzed(rows))
    }


def _origin(spark: SparkSession, leaf: Any) -> int:
    """The object behind a relation, which stays the same when Spark copies the relation for a second branch."""
    kind = plans.kind(leaf)
    behind = leaf
    if kind == "StreamingRelationV2":
        behind = leaf.table()
    elif kind == "StreamingRelation":
        behind = leaf.dataSource()
    jvm: Any = spark._jvm
    return int(jvm.java.lang.System.identityHashCode(behind))


Tell = Callable[..., None]

_DELAY = "spark.watermarkDelayMs"
_TIME_WINDOW = "spark.timeWindow"
_STATEFUL = ("Aggregate", "Deduplicate", "DeduplicateWithinWatermark", "Join", "TransformWithState", "FlatMapGroups")


@dataclass(frozen=True)
class _Grid:
    """Windows of a fixed length that begin at fixed distances."""

    time: Any
    """The expression of a row's own time, in microseconds."""
    slide: int
    copies: bool
    """Whether a row is there once for each of its windows."""


class LateRows:
    """Puts the counting below the aggregations that read rows as they come in."""

    def __init__(self, spark: SparkSession, query: str, plan: Any, tell: Tell) -> None:
        self._spark: Any = spark
        self._query, self._plan, self._tell = query, plan, tell
        self._number = 0
        self._groups = _groups([_watermarks(each) for each in nodes(plan) if _drops_late_rows(each)])
        self._alone = len(_watermarks(plan)) == 1

    def add(self) -> Any:
        """The plan with the counting in it."""
        return self._add(self._plan)

    def _add(self, plan: Any) -> Any:
        if not plan.isStreaming():
            return plan
        if _drops_late_rows(plan):
            return plans.with_children(self._spark, plan, [self._counting(plan)])
        return plans.with_children(self._spark, plan, [self._add(child) for child in elements(plan.children())])

    def _counting(self, aggregate: Any) -> Any:
        from pyspark.sql import functions as F  # noqa: N812

        child, time = aggregate.child(), _event_time(aggregate)
        end, watermark = self._end(time), self._watermark() * 1000
        late, facts = end <= watermark, []
        grid = _grid(child, time)
        if grid is not None:
            facts = _open_windows(end, watermark, grid.slide)
            if grid.copies:
                # Late when the first of its windows is closed, and counted as a row of that window only.
                late = late & (plans.column(self._spark, grid.time) >= end - grid.slide)
        self._number += 1
        # Group 0: every operator of the query reads the same watermark.
        group = 0 if self._alone else 1 + self._groups[min(_watermarks(aggregate))]
        facts = [F.count_if(late).alias("late"), F.max(F.lit(group)).alias("group"), *facts]
        return plans.analyzed(plans.dataframe(self._spark, child).observe(f"{LATE}{self._number}", *facts))

    def _end(self, time: Any) -> Column:
        """The moment at which a row's group is closed, in microseconds."""
        is_window = time.dataType().typeName() == "struct"
        expressions = self._spark._jvm.org.apache.spark.sql.catalyst.expressions
        none = getattr(getattr(self._spark._jvm.scala, "None$"), "MODULE$")
        end = expressions.GetStructField(time, 1, none) if is_window else time
        long = self._spark._jvm.org.apache.spark.sql.types.DataTypes.LongType
        return plans.column(self._spark, expressions.PreciseTimestampConversion(end, end.dataType(), long))

    def _watermark(self) -> Column:
        """The watermark that decides what is late in the batch that runs, in milliseconds."""
        from pyspark.java_gateway import ensure_callback_server_started

        gateway: Any = self._spark.sparkContext._gateway
        ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
        jvm = self._spark._jvm
        held = jvm.java.util.concurrent.atomic.AtomicLongArray(1)
        set_watermark = _SetWatermark(self._spark, self._query, held, self._tell)
        integer = jvm.org.apache.spark.sql.types.DataTypes.IntegerType
        first = jvm.org.apache.spark.sql.catalyst.expressions.Literal(0, integer)
        read = self._invoke(held, "java.util.concurrent.atomic.AtomicLongArray", "get", [first], folded=False)
        return read + self._invoke(set_watermark, "java.util.function.LongSupplier", "getAsLong", [], folded=True)

    def _invoke(self, target: Any, interface: str, method: str, arguments: list[Any], *, folded: bool) -> Column:
        jvm = self._spark._jvm
        catalyst, types = jvm.org.apache.spark.sql.catalyst.expressions, jvm.org.apache.spark.sql.types
        literal = catalyst.Literal(target, types.ObjectType(jvm.java.lang.Class.forName(interface)))
        given, none = jvm.PythonUtils.toSeq(arguments), jvm.PythonUtils.toSeq([])
        long = types.DataTypes.LongType
        return plans.column(
            self._spark, catalyst.objects.Invoke(literal, method, long, given, none, True, False, folded)
        )


class _SetWatermark:
    """A `LongSupplier` for the JVM, called while a batch is planned; always gives 0."""

    def __init__(self, spark: SparkSession, query: str, held: Any, tell: Tell) -> None:
        self._spark, self._query, self._held, self._tell = spark, query, held, tell
        self._failed = False

    def getAsLong(self) -> int:  # noqa: N802
        """Put the watermark of the batch before, by which Spark decides what is late, where the plan reads it."""
        try:
            self._held.set(0, self._milliseconds())
        except Exception as error:  # raised here, it would fail the batch; the watermark of the batch before stays
            if not self._failed:
                self._failed = True
                self._tell("not_counted", sink=self._query, reason=summary(error))
        return 0

    def _milliseconds(self) -> int:
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


def _grid(child: Any, window: Any) -> _Grid | None:
    """The grid of a `window()` column; None for a session, a plain time, and where the row's own time is gone."""
    if not window.metadata().contains(_TIME_WINDOW):
        return None
    made, copies = _definition(child, window)
    if made is None:
        return None
    inside = list(nodes(made))
    slide = next((each.right().value() for each in inside if kind(each) == "Remainder"), None)
    if slide is None:
        return None
    # The innermost conversion is that of the time column itself.
    time = [each for each in inside if kind(each) == "PreciseTimestampConversion"][-1]
    if copies and not time.references().subsetOf(child.outputSet()):
        raise ValueError("its sliding windows are made in another step, which leaves the time column out")
    return _Grid(time, int(slide), copies)


def _definition(child: Any, attribute: Any) -> tuple[Any, bool]:
    """The expression that a window column stands for, and whether it copies each row; None if it is not below."""
    wanted = attribute.exprId()
    for plan in nodes(child):
        if kind(plan) == "Project":
            made = next((each for each in elements(plan.projectList()) if each.exprId().equals(wanted)), None)
            if made is None or kind(made) != "Alias":
                continue
            if kind(made.child()) != "AttributeReference":
                return made.child(), False
            wanted = made.child().exprId()
        elif kind(plan) == "Expand" and plan.output().head().exprId().equals(wanted):
            return plan.projections().head().head(), True
    return None, False


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


def _drops_late_rows(plan: Any) -> bool:
    """Whether a plan aggregates rows over event time as they come in; what another one gives has no late rows."""
    if kind(plan) != "Aggregate" or not plan.isStreaming() or _event_time(plan) is None:
        return False
    return not any(_is_stateful(each) for child in elements(plan.children()) for each in nodes(child))


def _event_time(aggregate: Any) -> Any:
    groupings = elements(aggregate.groupingExpressions())
    return next((each for each in groupings if kind(each) == "AttributeReference" and _has_delay(each)), None)


def _has_delay(attribute: Any) -> bool:
    return bool(attribute.metadata().contains(_DELAY))


def _is_stateful(plan: Any) -> bool:
    if kind(plan) == "Join":
        return all(child.isStreaming() for child in elements(plan.children()))
    return bool(plan.isStreaming()) and kind(plan).startswith(_STATEFUL)


def _watermarks(plan: Any) -> frozenset[str]:
    """The watermarks that a plan's rows have passed; copies of one for several branches are the same."""
    return frozenset(str(each.nodeId()) for each in nodes(plan) if kind(each) == "EventTimeWatermark")


def _groups(read: list[frozenset[str]]) -> dict[str, int]:
    """A number for each watermark; those that one aggregation reads together have the same."""
    groups: list[set[str]] = []
    for watermarks in read:
        shared = [group for group in groups if group & watermarks]
        groups = [group for group in groups if group not in shared] + [set(watermarks).union(*shared)]
    return {watermark: number for number, group in enumerate(groups) for watermark in group}
