from __future__ import annotations

from typing import Any

from penstock.watch.history import story


def event(what: str, **facts: Any) -> dict[str, Any]:
    return {"at": "2026-02-03T10:00:00.123+00:00", "what": what, **facts}


def batch(number: int, rows: int) -> dict[str, Any]:
    progress = {"name": "out", "batchId": number, "sources": [{"numInputRows": rows}]}
    return event("batch", progress=progress)


def test_a_story_is_one_plain_line_for_each_thing_and_batches_are_counted_together():
    told = list(
        story(
            [
                event("lease_taken", token=3, pid=7, host="here"),
                event("started", sinks=["out"]),
                batch(0, 1000),
                batch(1, 500),
                event("driver_ended", pid=8, code=-9, well=False, reason="the driver was killed by SIGKILL"),
                event("restarting", reason="the driver was killed by SIGKILL", wait_seconds=1.0, restart=1),
                event("gap", topic="t", partition=0, start=100, end=300, count=200, why="they have expired"),
                event("something_new", a=1),
            ]
        )
    )

    assert told == [
        "2026-02-03 10:00:00  the lease was taken as number 3 by pid 7 on here",
        "2026-02-03 10:00:00  the queries run: out",
        "2026-02-03 10:00:00  out: batches 0 to 1, 1,500 rows",
        "2026-02-03 10:00:00  the driver ended: the driver was killed by SIGKILL",
        "2026-02-03 10:00:00  restart 1 in 1.0 s: the driver was killed by SIGKILL",
        "2026-02-03 10:00:00  a gap of 200 records in t partition 0, offsets 100 to 300: they have expired",
        "2026-02-03 10:00:00  something_new a=1",
    ]
