"""What a query counts besides Spark's own numbers: late rows, and rows in when a source is read more than once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from penstock.engine import plans
from penstock.engine.late import LateRows, Tell
from penstock.engine.reasons import sentence
from penstock.model import Sink
from penstock.watch.snapshot import ROWS_IN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


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
        tell("not_counted", sink=sink.name, reason=sentence(error))
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
