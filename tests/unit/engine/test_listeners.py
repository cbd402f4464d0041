"""What a consumer group is told when several queries read one source."""

from __future__ import annotations

from penstock.engine.listeners import slowest


def test_of_each_partition_the_least_that_every_query_has_processed_counts():
    fast = {"a": {"0": 10, "1": 3}, "b": {"0": 5}}
    slow = {"a": {"0": 4, "1": 9}}

    assert slowest([fast, slow]) == {"a": {"0": 4, "1": 3}, "b": {"0": 5}}
    assert slowest([fast]) == fast
