"""A query stopped between two batches, without a race; `stop()` would interrupt a running batch.

    forbid   the running batch is committed, and no other begins
    wait     until the query's thread ends by itself
    stop     only a thread that is outside of a batch, asleep until its next trigger: it can no longer enter one

The continuous engine has no batches: its queries are stopped at once, and repeat what came after their last epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.spark.internals import forbid_next_batch, has_batches, is_in_batch, is_thread_alive
from penstock.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def drain(spark: SparkSession, queries: Sequence[StreamingQuery], most_seconds: float) -> list[str]:
    """Finish and commit the running batch of each query, and begin no other; the names of those that did not end."""
    for query in queries:
        if has_batches(query):
            forbid_next_batch(spark, query)
        else:
            query.stop()
    running = list(queries)

    def have_ended() -> bool:
        running[:] = [query for query in running if not _has_ended(query)]
        return not running

    wait_until(have_ended, most_seconds)
    return [str(query.name) for query in running]


def _has_ended(query: StreamingQuery) -> bool:
    if not is_thread_alive(query):
        return True
    if not is_in_batch(query):
        # Asleep until its next trigger, and no batch can begin.
        query.stop()
    return not is_thread_alive(query)
