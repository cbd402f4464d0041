"""Views built from the events of a pipeline."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from tests.unit.watch.reports import MANIFEST, event, progress, write_log

from penstock.events import epoch_seconds
from penstock.processes import identity
from penstock.storage.layout import named_sources
from penstock.watch.board import Board, is_alive
from penstock.watch.reducer import PipelineReducer, Process, TimeBehind
from penstock.watch.snapshot import phases
from penstock.watch.terminal import lines
from penstock.watch.views import PipelineView, Point, QueryView, Series

AT = epoch_seconds("2024-01-01T10:00:05+00:00")


def view(*events: dict, now: float = AT, alive: bool = True) -> PipelineView:
    reducer = PipelineReducer("trades", MANIFEST)
    for each in events:
        reducer.apply(each)
    return reducer.view(now, lambda _process: alive)


STARTED = event("started", "09:59:00", sinks=["board"], pid=1, host="a")
BATCH = event("batch", "10:00:02", progress=progress())


def test_a_batch_sets_every_fact_of_its_query():
    (query,) = view(STARTED, BATCH).queries

    assert (query.sink, query.batch, query.rows_in, query.rows_out) == ("board", 0, 500, 12)
    assert (query.input_per_second, query.processed_per_second, query.output_per_second) == (100, 250, 6)
    assert (query.state_rows, query.state_memory_bytes, query.state_disk_bytes) == (4, 4272, 900)
    assert (query.watermark_delay_seconds, query.bad_records, query.late_rows) == (122, {"trades": 2}, 0)
    assert query.promise == "kafka: at-least-once"


def test_the_phases_of_a_batch_add_up_to_its_duration():
    took = phases(progress())

    assert took == {"planning": 0.2, "reading": 0.2, "state": 0.3, "writing": 1.0, "commit": 0.2, "other": 0.1}
    assert sum(took.values()) == pytest.approx(2.0)


def test_totals_cover_all_batches_and_rates_the_last_one():
    again = event("batch", "10:00:04", progress=progress(1, rows=100, end=300))

    (query,) = view(STARTED, BATCH, again).queries

    assert (query.batch, query.batches, query.rows_in, query.bad_records) == (1, 2, 600, {"trades": 4})
    assert query.rows_in_by_source == {"trades": 600}


def test_rows_behind_are_what_a_partition_has_beyond_what_was_read():
    (query,) = view(STARTED, event("batch", "10:00:02", progress=progress(end=250, latest=1250))).queries

    assert query.behind == {"trades": {"trades/0": 1000, "trades/1": 0}}
    assert query.rows_behind == 1000


def test_time_behind_is_since_the_topic_had_no_more_than_was_read():
    #  latest   100 ──── 200 ──── 300        a query that has read 150 at 120 s is where
    #  at         0       60      120        the topic was at 30 s: 90 seconds behind
    behind = TimeBehind()
    reports = [(100, 100, 0.0), (200, 100, 60.0), (300, 150, 120.0)]

    found = [
        behind.seconds({"latestOffset": {"t": {"0": latest}}, "endOffset": {"t": {"0": end}}}, at)
        for latest, end, at in reports
    ]

    assert found == [0, 60, 90]


def test_a_recreated_topic_starts_over():
    behind = TimeBehind()
    behind.seconds({"latestOffset": {"t": {"0": 900}}, "endOffset": {"t": {"0": 100}}}, 0.0)

    assert behind.seconds({"latestOffset": {"t": {"0": 5}}, "endOffset": {"t": {"0": 5}}}, 60.0) == 0


@pytest.mark.parametrize("offset", [None, "3", 17, {"logOffset": 3}, [1]])
def test_sources_without_partitions_have_no_lag_and_no_zero(offset):
    source = {"latestOffset": offset, "endOffset": offset}

    assert TimeBehind().seconds(source, 0.0) is None
    (query,) = view(STARTED, event("batch", "10:00:02", progress=progress(sources=[source]))).queries
    assert query.rows_behind is None


def test_a_query_without_new_reports_is_idle_and_has_no_rates():
    (busy,) = view(STARTED, BATCH, now=AT).queries
    (idle,) = view(STARTED, BATCH, now=AT + 60).queries

    assert (busy.idle, busy.input_per_second) == (False, 100)
    assert (idle.idle, idle.input_per_second, idle.input_per_second_by_source) == (True, 0, {"trades": 0})
    assert idle.rows_in == 500


FAILED = event("failed", "10:01:00", reason="sink 'board': the disk is full")


@pytest.mark.parametrize(
    ("events", "state"),
    [
        ([], "new"),
        ([event("lease_taken", "09:58:00", token=1, pid=1, host="a")], "starting"),
        ([STARTED], "running"),
        ([STARTED, event("draining", "10:00:00", why="SIGTERM")], "draining"),
        ([STARTED, event("stopped", "10:00:00")], "stopped"),
        ([STARTED, FAILED, event("stopped", "10:01:01")], "failed"),
        ([STARTED, FAILED, event("driver_ended", "10:01:01", well=False, reason="x")], "failed"),
        ([STARTED, event("driver_ended", "10:01:01", well=False, reason="killed by signal 9")], "failed"),
        ([STARTED, event("driver_ended", "10:01:01", well=True), event("lease_released", "10:01:02")], "stopped"),
        ([STARTED, FAILED, event("restarting", "10:01:02", reason="x", restart=1, wait_seconds=1)], "restarting"),
        ([STARTED, FAILED, event("gave_up", "10:01:02", reason="x", restarts=5)], "failed"),
    ],
)
def test_the_state_follows_from_what_happened_last(events, state):
    assert view(*events).state == state


def test_a_run_whose_process_ended_without_an_event_is_gone():
    assert view(STARTED, alive=False).state == "gone"
    assert view(STARTED, event("stopped", "10:00:00"), alive=False).state == "stopped"


def test_the_last_error_stays_and_failures_and_restarts_are_counted():
    restart = event("restarting", "10:01:02", reason="the disk is full", restart=1, wait_seconds=1)
    alone = event("query_restarting", "10:02:00", sink="board", reason="the broker is away")

    seen = view(STARTED, FAILED, restart, STARTED, alone)

    assert (seen.state, seen.starts, seen.restarts, seen.failures) == ("running", 2, 1, 2)
    assert seen.last_error == "the broker is away"
    assert (seen.queries[0].restarts, seen.queries[0].last_error) == (1, "the broker is away")


def test_rows_missing_in_an_optional_target_are_counted():
    missed = event("missed", "10:00:00", sink="board", target="mail", rows=7, batch=3, reason="x")

    assert view(STARTED, missed, missed).queries[0].missed_rows == 14


NODES = [
    {"name": "left", "role": "source", "kind": "kafka", "reads": [], "place": ["a"]},
    {"name": "right", "role": "source", "kind": "kafka", "reads": [], "place": ["b"]},
    {"name": "lines", "role": "source", "kind": "files", "reads": [], "place": ["in"]},
    {"name": "users", "role": "source", "kind": "files", "reads": [], "place": ["u"], "static": True},
    {"name": "both", "role": "step", "kind": "sql", "reads": ["left", "right", "lines", "users"]},
    {"name": "out", "role": "sink", "kind": "kafka", "reads": ["both"]},
]


def test_sources_of_a_report_are_named_by_sparks_descriptions():
    described = ["FileStreamSource[file:/data/in]", "KafkaV2[Subscribe[b]]", "KafkaV2[Subscribe[a]]", "strange"]

    assert named_sources(NODES, "out", described) == ["lines", "right", "left", "strange"]


def test_old_points_are_thinned_and_new_ones_are_not():
    series = Series()
    for at in range(5000):
        series.add(Point.of(QueryView("a", at=float(at)), 0, 0))

    times = [point.at for point in series.points]
    assert len(times) <= 1440
    assert times[0] == 0
    assert times[-500:] == list(range(4500, 5000))


def test_a_board_has_every_pipeline_of_a_storage_and_reads_only_what_is_new(tmp_path: Path):
    write_log(tmp_path, "trades", [STARTED, BATCH])
    write_log(tmp_path, "clicks", [])
    (tmp_path / "dev").mkdir()
    (tmp_path / "no name!" / "events").mkdir(parents=True)
    board = Board(str(tmp_path))

    assert board.refresh() == {"trades"}
    assert board.names() == ["clicks", "trades"]
    assert board.refresh() == set()

    write_log(tmp_path, "clicks", [STARTED])
    assert board.refresh() == {"clicks"}


def test_a_process_is_alive_when_it_is_the_one_that_wrote():
    ours = Process(socket.gethostname(), os.getpid(), 0.0, identity(os.getpid()))

    assert is_alive(ours)
    assert not is_alive(replace(ours, identity="another:17"))
    assert not is_alive(replace(ours, pid=2**22 + 1))
    assert is_alive(replace(ours, host="another.example", pid=2**22 + 1))


def test_in_logs_of_release_0_1_a_process_is_known_by_the_clock():
    ours = Process(socket.gethostname(), os.getpid(), time.time())

    assert is_alive(ours)
    assert not is_alive(replace(ours, at=0.0))


@pytest.mark.parametrize("hours", [-5, 5])
def test_a_clock_that_was_set_does_not_make_a_living_pipeline_gone(tmp_path: Path, hours: int):
    moment = datetime.now(timezone.utc) + timedelta(hours=hours)
    taken = {"at": moment.isoformat(), "what": "lease_taken", "pid": os.getpid(), "host": socket.gethostname()}
    started = {"at": moment.isoformat(), "what": "driver_started", "pid": 1, "supervisor": identity(os.getpid())}
    write_log(tmp_path, "trades", [taken, started])
    board = Board(str(tmp_path))

    board.refresh()

    assert [view.state for view in board.views()] == ["starting"]


def test_a_query_without_a_batch_for_long_is_stalled_since_its_batch_began_until_it_moves_again():
    stalled = event("stalled", "10:00:32", sink="board", seconds=20.0, reason="source 'trades': no answer")

    shown = view(STARTED, BATCH, stalled, now=epoch_seconds("2024-01-01T10:00:42+00:00"))

    assert (shown.state, shown.since) == ("stalled", epoch_seconds("2024-01-01T10:00:12+00:00"))
    printed = list(lines(shown, epoch_seconds("2024-01-01T10:00:42+00:00")))
    assert printed[0] == "trades: stalled for 30 s"
    assert "  board: stalled since 2024-01-01 10:00:12: source 'trades': no answer" in printed
    assert view(STARTED, BATCH, stalled, event("resumed", "10:01:00", sink="board")).state == "running"
    assert view(STARTED, stalled, event("batch", "10:01:00", progress=progress(1))).state == "running"
    assert view(STARTED, stalled, event("failed", "10:01:00", reason="x")).state == "failed"
