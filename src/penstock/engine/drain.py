"""A query stopped between two batches, without a race.

`stop()` interrupts a running batch. Spark's own way to end after a batch, which `available-now` uses, is to set the
query's state to TERMINATED: the loop looks at it before a batch and after one, never inside. So:

    close   state ACTIVE -> TERMINATED      the running batch goes on and is committed; no other begins
    wait    until the query's thread ends by itself
    stop    only a thread that is outside of a batch, asleep until its next trigger: it can no longer enter one

The continuous engine has no batches: its queries are stopped at once, and repeat what came after their last epoch.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_LOOK_SECONDS = 0.05
_IN_A_BATCH = "executeOneBatch"


def drain(spark: SparkSession, queries: Sequence[StreamingQuery], most_seconds: float) -> list[str]:
    """Finish and commit the running batch of each query, and begin no other; the names of those that did not end."""
    for query in queries:
        close(spark, query)
    deadline = time.monotonic() + most_seconds
    waiting = list(queries)
    while waiting and time.monotonic() < deadline:
        waiting = [query for query in waiting if not _has_ended(query)]
        if waiting:
            time.sleep(_LOOK_SECONDS)
    return [str(query.name) for query in waiting]


def wait_for_reports(spark: SparkSession, most_seconds: float) -> bool:
    """Wait until every listener has heard of every batch; False if that takes longer, as on a busy machine."""
    bus: Any = spark._jsparkSession.sparkContext().listenerBus()
    try:
        bus.waitUntilEmpty(int(most_seconds * 1000))
    except Py4JJavaError as error:
        if "TimeoutException" not in str(error.java_exception):
            raise
        return False
    return True


def close(spark: SparkSession, query: StreamingQuery) -> None:
    """No batch of this query begins from here on."""
    if not _has_batches(query):
        query.stop()
        return
    runtime: Any = spark._jvm.org.apache.spark.sql.execution.streaming.runtime  # type: ignore[union-attr]
    active = getattr(runtime, "ACTIVE$")
    terminated = getattr(runtime, "TERMINATED$")
    _execution(query).state().compareAndSet(getattr(active, "MODULE$"), getattr(terminated, "MODULE$"))


def is_in_batch(query: StreamingQuery) -> bool:
    """Whether the query's thread is inside of a batch at this moment."""
    return any(frame.getMethodName() == _IN_A_BATCH for frame in _thread(query).getStackTrace())


def _has_ended(query: StreamingQuery) -> bool:
    if not _thread(query).isAlive():
        return True
    if not is_in_batch(query):
        # Asleep until its next trigger, and the gate is closed.
        query.stop()
    return not _thread(query).isAlive()


def _has_batches(query: StreamingQuery) -> bool:
    return "Continuous" not in _execution(query).getClass().getSimpleName()


def _execution(query: Any) -> Any:
    return query._jsq.streamingQuery()


def _thread(query: StreamingQuery) -> Any:
    return _execution(query).queryExecutionThread()
