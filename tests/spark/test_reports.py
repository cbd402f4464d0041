"""Batches are reported by a thread of Spark's, which may be behind."""

from __future__ import annotations

import threading

from penstock.spark.internals import wait_for_listeners

PIPELINE = """
name: late
sources:
  rows: {rate: {}}
sinks:
  late_reports: {from: rows, memory: {}, trigger: once}
"""


def test_reports_that_are_late_are_not_an_error_and_are_waited_for(project):
    reported, proceed = threading.Event(), threading.Event()

    def slow(_progress: dict) -> None:
        reported.set()
        assert proceed.wait(60)

    from penstock.engine import start

    queries = start(project.load(PIPELINE), project.spark, on_progress=slow)
    try:
        queries["late_reports"].awaitTermination()
        assert reported.wait(60)

        in_time = wait_for_listeners(project.spark, 0.2)
        proceed.set()

        assert not in_time
        assert wait_for_listeners(project.spark, 60)
    finally:
        proceed.set()
        queries.stop()
