"""What a query counts besides Spark's own numbers: late rows, and rows in when a source is read more than once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.events import Emit
from penstock.model import Sink
from penstock.spark.errors import summary
from penstock.spark.internals import (
    SharedLong,
    analyze,
    batch_watermark,
    call_while_planning,
    class_name,
    end_of_group,
    replace_children,
    source_id,
    streaming_leaves,
    to_column,
    to_dataframe,
    to_list,
    walk,
)
from penstock.watch.emitter import OPEN_WINDOWS
from penstock.watch.snapshot import LATE, ROWS_IN

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


def add_counts(sink: Sink, rows: DataFrame, sources: Mapping[str, DataFrame], emit: Emit) -> DataFrame:
    """The same rows, counted on their way; as they are, with an event that says why, if that cannot be done."""
    if not sink.trigger.has_micro_batches:
        # The other engines do not know `observe`.
        return rows
    try:
        spark = rows.sparkSession
        plan = _count_rows_in(spark, analyze(rows), sources)
        if sink.mode != "complete":
            # Nothing is dropped in mode complete.
            plan = LateRows(spark, sink.name, plan, emit).add()
        return to_dataframe(spark, plan)
    except Exception as error:  # whatever a plan holds that is not foreseen here: counting never stops a query
        emit("not_counted", sink=sink.name, reason=summary(error))
        return rows


def _count_rows_in(spark: SparkSession, plan: Any, sources: Mapping[str, DataFrame]) -> Any:
    """Count the rows of each source where Spark would count them once for each branch that reads it."""
    leaves = streaming_leaves(plan)
    origins = [source_id(spark, leaf) for leaf in leaves]
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
    children = to_list(plan.children())
    if not children:
        # One counter for all branches: metrics of one name must be copies of one node, and are reported once.
        return replace_children(spark, counters[source_id(spark, plan)], [plan])
    return replace_children(spark, plan, [_over_leaves(spark, child, counters) for child in children])


def _counter(spark: SparkSession, name: str, leaf: Any) -> Any:
    from pyspark.sql import functions as F  # noqa: N812

    observed = to_dataframe(spark, leaf).observe(f"{ROWS_IN}{name}", F.count(F.lit(1)).alias("rows"))
    return analyze(observed)


def _names(spark: SparkSession, sources: Mapping[str, DataFrame]) -> dict[int, str]:
    return {source_id(spark, leaf): name for name, rows in sources.items() for leaf in streaming_leaves(analyze(rows))}


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

    def __init__(self, spark: SparkSession, query: str, plan: Any, emit: Emit) -> None:
        self._spark: Any = spark
        self._query, self._plan, self._emit = query, plan, emit
        self._number = 0
        self._groups = _groups([_watermarks(each) for each in walk(plan) if _drops_late_rows(each)])
        self._alone = len(_watermarks(plan)) == 1

    def add(self) -> Any:
        """The plan with the counting in it."""
        return self._add(self._plan)

    def _add(self, plan: Any) -> Any:
        if not plan.isStreaming():
            return plan
        if _drops_late_rows(plan):
            return replace_children(self._spark, plan, [self._counting(plan)])
        return replace_children(self._spark, plan, [self._add(child) for child in to_list(plan.children())])

    def _counting(self, aggregate: Any) -> Any:
        from pyspark.sql import functions as F  # noqa: N812

        child, time = aggregate.child(), _event_time(aggregate)
        end, watermark = end_of_group(self._spark, time), self._watermark() * 1000
        late, facts = end <= watermark, []
        grid = _grid(child, time)
        if grid is not None:
            facts = _open_windows(end, watermark, grid.slide)
            if grid.copies:
                # Late when the first of its windows is closed, and counted as a row of that window only.
                late = late & (to_column(self._spark, grid.time) >= end - grid.slide)
        self._number += 1
        # Group 0: every operator of the query reads the same watermark.
        group = 0 if self._alone else 1 + self._groups[min(_watermarks(aggregate))]
        facts = [F.count_if(late).alias("late"), F.max(F.lit(group)).alias("group"), *facts]
        return analyze(to_dataframe(self._spark, child).observe(f"{LATE}{self._number}", *facts))

    def _watermark(self) -> Column:
        """The watermark that decides what is late in the running batch, in milliseconds."""
        held = SharedLong.create(self._spark)
        update = _WatermarkUpdate(self._spark, self._query, held, self._emit)
        return held.read() + call_while_planning(self._spark, update, "watermark")


@dataclass
class _WatermarkUpdate:
    """Called while a batch is planned: puts the watermark where the plan reads it."""

    spark: SparkSession
    query: str
    held: SharedLong
    emit: Emit
    _has_failed: bool = False

    def __call__(self) -> None:
        try:
            running = next((query for query in self.spark.streams.active if query.name == self.query), None)
            self.held.set(batch_watermark(running) if running is not None else 0)
        except Exception as error:  # raised here, it would fail the batch; the watermark of the last batch stays
            if not self._has_failed:
                self._has_failed = True
                self.emit("not_counted", sink=self.query, reason=summary(error))


def _grid(child: Any, window: Any) -> _Grid | None:
    """The grid of a `window()` column; None for a session, a plain time, and where the row's own time is gone."""
    if not window.metadata().contains(_TIME_WINDOW):
        return None
    made, copies = _definition(child, window)
    if made is None:
        return None
    inside = list(walk(made))
    slide = next((each.right().value() for each in inside if class_name(each) == "Remainder"), None)
    if slide is None:
        return None
    # The innermost conversion is that of the time column itself.
    time = [each for each in inside if class_name(each) == "PreciseTimestampConversion"][-1]
    if copies and not time.references().subsetOf(child.outputSet()):
        raise ValueError("its sliding windows are made in another step, which leaves the time column out")
    return _Grid(time, int(slide), copies)


def _definition(child: Any, attribute: Any) -> tuple[Any, bool]:
    """The expression that a window column stands for, and whether it copies each row; None if it is not below."""
    wanted = attribute.exprId()
    for plan in walk(child):
        if class_name(plan) == "Project":
            made = next((each for each in to_list(plan.projectList()) if each.exprId().equals(wanted)), None)
            if made is None or class_name(made) != "Alias":
                continue
            if class_name(made.child()) != "AttributeReference":
                return made.child(), False
            wanted = made.child().exprId()
        elif class_name(plan) == "Expand" and plan.output().head().exprId().equals(wanted):
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
    if class_name(plan) != "Aggregate" or not plan.isStreaming() or _event_time(plan) is None:
        return False
    return not any(_is_stateful(each) for child in to_list(plan.children()) for each in walk(child))


def _event_time(aggregate: Any) -> Any:
    groupings = to_list(aggregate.groupingExpressions())
    return next((each for each in groupings if class_name(each) == "AttributeReference" and _has_delay(each)), None)


def _has_delay(attribute: Any) -> bool:
    return bool(attribute.metadata().contains(_DELAY))


def _is_stateful(plan: Any) -> bool:
    if class_name(plan) == "Join":
        return all(child.isStreaming() for child in to_list(plan.children()))
    return bool(plan.isStreaming()) and class_name(plan).startswith(_STATEFUL)


def _watermarks(plan: Any) -> frozenset[str]:
    """The watermarks that a plan's rows have passed; copies of one for several branches are the same."""
    return frozenset(str(each.nodeId()) for each in walk(plan) if class_name(each) == "EventTimeWatermark")


def _groups(read: list[frozenset[str]]) -> dict[str, int]:
    """A number for each watermark; those that one aggregation reads together have the same."""
    groups: list[set[str]] = []
    for watermarks in read:
        shared = [group for group in groups if group & watermarks]
        groups = [group for group in groups if group not in shared] + [set(watermarks).union(*shared)]
    return {watermark: number for number, group in enumerate(groups) for watermark in group}
