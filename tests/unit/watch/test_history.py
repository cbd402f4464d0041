from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

from tests.unit.watch.reports import event as stamped
from tests.unit.watch.reports import progress, write_log

from penstock.events import EventTail
from penstock.watch.board import Board
from penstock.watch.terminal import history_lines, lines


def event(what: str, **facts: Any) -> dict[str, Any]:
    return {"at": "2026-02-03T10:00:00.123+00:00", "what": what, **facts}


def batch(number: int, rows: int) -> dict[str, Any]:
    progress = {"name": "out", "batchId": number, "sources": [{"numInputRows": rows}]}
    return event("batch", progress=progress)


def test_the_history_is_one_line_per_event_and_consecutive_batches_share_one():
    printed = list(
        history_lines(
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

    assert printed == [
        "2026-02-03 10:00:00  lease acquired with token 3 by pid 7 on here",
        "2026-02-03 10:00:00  queries started: out",
        "2026-02-03 10:00:00  out: batches 0 to 1, 1,500 rows",
        "2026-02-03 10:00:00  driver ended: the driver was killed by SIGKILL",
        "2026-02-03 10:00:00  restart 1 in 1.0 s: the driver was killed by SIGKILL",
        "2026-02-03 10:00:00  a gap of 200 records in t partition 0, offsets 100 to 300: they have expired",
        "2026-02-03 10:00:00  something_new a=1",
    ]


def test_a_batch_without_its_facts_is_still_shown():
    damaged = [event("batch"), event("batch", progress=3), event("batch", progress={"name": ["out"]})]

    assert list(history_lines(damaged)) == [
        "2026-02-03 10:00:00  ?: batch ?, ? rows",
        "2026-02-03 10:00:00  ?: batch ?, ? rows",
        "2026-02-03 10:00:00  out: batch ?, ? rows",
    ]


def test_one_damaged_byte_of_the_log_breaks_neither_history_nor_status(tmp_path: Path):
    stall = {"sink": "board", "seconds": 20.0, "reason": "x"}
    log = [
        stamped("lease_taken", "09:58:00", token=1, pid=1, host="a"),
        stamped("started", "09:59:00", sinks=["board"], attempt=0),
        stamped("batch", "10:00:02", progress=progress(), oldest_window_ends={"1": "2024-01-01 10:05:00"}),
        stamped("missed", "10:00:03", sink="board", target="mail", rows=7, batch=3, reason="x"),
        stamped("stalled", "10:00:32", **stall),
        stamped("gap", "10:00:33", topic="t", partition=0, start=1, end=3, count=2, why="expired"),
        stamped("driver_ended", "10:01:01", pid=1, code=1, well=False, reason="x"),
    ]
    file = write_log(tmp_path, "trades", log) / "2024-01-01.jsonl"
    whole, chance = file.read_bytes(), random.Random(7)

    for _ in range(300):
        at = chance.randrange(len(whole))
        file.write_bytes(whole[:at] + bytes([chance.randrange(32, 127)]) + whole[at + 1 :])

        printed = list(history_lines(EventTail(str(file.parent)).read_new()))

        assert len(printed) >= len(log) - 2
        board = Board(str(tmp_path))
        board.refresh()
        assert json.dumps([view.as_dict() for view in board.views()])
        assert [line for view in board.views() for line in lines(view, time.time())]
