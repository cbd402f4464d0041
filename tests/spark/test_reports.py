"""Batches are reported by a thread of Spark's, which may be behind."""

from __future__ import annotations

import threading

from penstock.engine.drain import wait_for_reports
from penstock.engine.run import listen


def test_reports_that_are_late_are_no_error_and_are_waited_for(spark):
    reported, go_on = threading.Event(), threading.Event()

    def slow(_progress: dict) -> None:
        reported.set()
        assert go_on.wait(60)

    listener = listen(spark, slow, threading.Event())
    query = spark.readStream.format("rate").load().writeStream.format("noop").trigger(once=True).start()
    try:
        query.awaitTermination()
        assert reported.wait(60)

        in_time = wait_for_reports(spark, 0.2)
        go_on.set()

        assert not in_time
        assert wait_for_reports(spark, 60)
    finally:
        go_on.set()
        spark.streams.removeListener(listener)
