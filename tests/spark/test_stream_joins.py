"""Two streams joined, every way that Spark allows: what is matched, what is given up on, and when."""

from __future__ import annotations

import pytest

from penstock import Pipeline, kafka, memory
from penstock.testing import Bench


def joined(how: str) -> Pipeline:
    made = Pipeline("joins")
    made.source(
        "l", kafka(servers="nowhere:1", topics=["l"]), json="lat timestamp, k int", watermark=("lat", "1 minute")
    )
    made.source(
        "r", kafka(servers="nowhere:1", topics=["r"]), json="rat timestamp, j int", watermark=("rat", "1 minute")
    )
    columns = "l.k" if how == "LEFT SEMI" else "l.k, r.j"
    step = f"SELECT {columns} FROM l {how} JOIN r ON k = j AND rat BETWEEN lat AND lat + INTERVAL 10 MINUTES"
    made.sink("out", made.sql("pairs", step), memory())
    return made


def left(time: str, key: int) -> dict:
    return {"lat": f"2024-01-01 {time}", "k": key}


def right(time: str, key: int) -> dict:
    return {"rat": f"2024-01-01 {time}", "j": key}


@pytest.mark.parametrize(
    ("how", "at_once", "later"),
    [
        ("INNER", [(1, 1)], []),
        ("LEFT OUTER", [(1, 1)], [(2, None)]),
        ("RIGHT OUTER", [(1, 1)], [(None, 3)]),
        ("FULL OUTER", [(1, 1)], [(2, None), (None, 3)]),
        ("LEFT SEMI", [(1,)], []),
    ],
)
def test_the_unmatched_appear_with_nulls_when_the_watermark_rules_a_match_out(spark, how, at_once, later):
    def rows(batch: int) -> list[tuple]:
        return sorted((tuple(row.values()) for row in bench.rows("out", batch)), key=repr)

    with Bench(joined(how), spark) as bench:
        bench.feed_all(
            {"l": [left("10:00:00", 1), left("10:00:00", 2)], "r": [right("10:05:00", 1), right("10:05:00", 3)]}
        )
        # A match of left 2 could come until 10:10, one of right 3 had to be there by 10:05.
        bench.feed_all({"l": [left("10:04:00", 8)], "r": [right("10:04:00", 9)]})
        bench.feed_all({"l": [left("11:00:00", 4)], "r": [right("11:00:00", 5)]})
        found = [rows(0), rows(1), rows(2)]

    assert found[0] == at_once
    assert found[1] == []
    assert [row for row in found[2] if set(row) & {2, 3}] == sorted(later, key=repr)
