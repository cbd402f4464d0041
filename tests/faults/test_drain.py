"""Told to stop: the running batch is finished and committed, no other begins, no process is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import psutil
import pytest
from tests.faults.world import World
from tests.services.command import penstock, started, until

from penstock.services.kafka import free_port

SLOW = """
    name: copy
    restart: {{backoff: 100 milliseconds}}
    spark: {{spark.driver.memory: 1g}}
    sources:
      ids:
        kafka: {{servers: "{servers}", topics: [{source}], start: earliest, records_per_trigger: {most}}}
        value: string
    sinks:
      out:
        from: ids
        to:
          - kafka: {{servers: "{servers}", topic: {target}, value_column: value}}
          - files: {{path: out, format: parquet}}
          - foreach_batch: {{python: "slow:slow"}}
"""
WAIT = """
import pathlib, time

HERE = pathlib.Path({folder!r})


def slow(rows, number):
    (HERE / f"begun-{{number}}").touch()
    while number == 1 and not (HERE / "go-on").exists():
        time.sleep(0.05)
"""


def asked(port: int, page: str) -> tuple[int, dict[str, object]]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{page}", timeout=5) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)
    except OSError:
        return 0, {}


@pytest.mark.faults
def test_a_stop_in_the_middle_of_a_batch_commits_it_and_a_restart_repeats_nothing(world: World, tmp_path: Path):
    (tmp_path / "slow.py").write_text(WAIT.format(folder=str(tmp_path)))
    file = world.write(SLOW, most=100)
    world.feed(1000)
    port = free_port()

    with started("run", file, "--health-port", str(port), folder=tmp_path) as run:
        until(lambda: (tmp_path / "begun-1").exists() or run.process.poll() is not None, f"batch 1\n{run.said}")
        until(lambda: asked(port, "/ready")[0] == 200, "readiness")
        status, health = asked(port, "/health")
        assert (status, health["queries"]) == (200, {"out": True})
        family = run.family
        stop = subprocess.Popen(
            [sys.executable, "-m", "penstock", "stop", "copy"], cwd=tmp_path, stdout=subprocess.PIPE, text=True
        )
        until(lambda: "draining" in run.said, f"the drain\n{run.said}")
        assert asked(port, "/ready")[0] == 503
        (tmp_path / "go-on").touch()
        assert run.process.wait(60) == 0, run.said
        assert stop.communicate(timeout=60)[0] == "copy has stopped\n"

    assert not [each for each in family if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]
    assert world.last("commits") == world.last("offsets") == 1, "batch 1 was finished and no other begun"
    told = [each["what"] for each in world.events()]
    assert told.index("drained") > max(place for place, what in enumerate(told) if what == "batch")
    again = penstock("run", file, "--once", folder=tmp_path)
    assert again.returncode == 0, again.stderr
    world.judge(repeated=0)
    assert penstock("stop", "copy", folder=tmp_path).stdout == "copy is not running\n"


@pytest.mark.faults
def test_a_batch_that_does_not_end_is_left_after_the_stated_time_and_a_second_signal_stops_at_once(
    world: World, tmp_path: Path
):
    (tmp_path / "slow.py").write_text(WAIT.format(folder=str(tmp_path)))
    file = world.write(SLOW, most=100)
    world.feed(300)

    with started("run", file, "--drain-seconds", "2", folder=tmp_path) as run:
        until(lambda: (tmp_path / "begun-1").exists() or run.process.poll() is not None, f"batch 1\n{run.said}")
        run.process.terminate()
        assert run.process.wait(60) == 1, run.said
        assert "did not end within 2 s" in run.said
    (tmp_path / "begun-1").unlink()
    with started("run", file, folder=tmp_path) as run:
        until(lambda: (tmp_path / "begun-1").exists() or run.process.poll() is not None, f"batch 1\n{run.said}")
        family = run.family
        run.process.send_signal(signal.SIGINT)
        until(lambda: "draining" in run.said, f"the drain\n{run.said}")
        run.process.send_signal(signal.SIGINT)
        assert run.process.wait(10) == 1, run.said
    assert not [each for each in family if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]

    (tmp_path / "go-on").touch()
    assert penstock("run", file, "--once", folder=tmp_path).returncode == 0
    # Abandoned twice, perhaps in the middle of sending: the topic is at-least-once, the folder is not.
    world.judge(repeated=200)


@pytest.mark.faults
def test_a_pipe_that_nobody_reads_does_not_hold_the_pipeline_up(world: World, tmp_path: Path):
    file = world.write(most=100)
    world.feed(1500)
    unread, full = os.pipe()
    # What fits into a pipe is little; make it less.
    import fcntl

    fcntl.fcntl(full, fcntl.F_SETPIPE_SZ, 4096)
    os.set_blocking(full, False)
    try:
        while True:
            os.write(full, b"x" * 512)
    except BlockingIOError:
        os.set_blocking(full, True)
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock", "run", str(file)], cwd=tmp_path, stdout=full, stderr=full
    )
    try:
        until(lambda: world.has_all() or process.poll() is not None, "all ids, with a pipe that is full")
        process.terminate()
        assert process.wait(90) == 0
    finally:
        for each in psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []:
            each.kill()
        process.kill()
        process.wait()
        os.close(unread)
        os.close(full)
    world.judge()


FAILING = """
    name: copy
    restart: {{limit: 1, backoff: 100 milliseconds{more}}}
    spark: {{spark.driver.memory: 1g}}
    sources:
      ids:
        kafka: {{servers: "{servers}", topics: [{source}], start: earliest, records_per_trigger: {most}}}
        value: string
    sinks:
      out: {{from: ids, foreach_batch: {{python: "bad:bad"}}}}
"""
NEVER = """
import time


def bad(rows, number):
    time.sleep(600)
"""
ALWAYS = """
def bad(rows, number):
    raise RuntimeError("no luck")
"""


@pytest.mark.faults
def test_what_always_fails_is_restarted_alone_then_anew_and_then_given_up(world: World, tmp_path: Path):
    (tmp_path / "bad.py").write_text(ALWAYS)
    world.feed(10)

    ran = penstock("run", world.write(FAILING), folder=tmp_path)

    assert ran.returncode == 1
    assert "RuntimeError: no luck" in ran.stderr
    assert "1 restarts within 10 minutes did not help, so there are no more" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert len(world.events("query_restarting")) == 2, "once in each driver"
    assert len(world.events("restarting")) == 1
    assert len(world.events("gave_up")) == 1


@pytest.mark.faults
def test_a_batch_that_hangs_is_noticed_and_its_driver_restarted(world: World, tmp_path: Path):
    (tmp_path / "bad.py").write_text(NEVER)
    world.feed(10)

    file = world.write(FAILING, more=", stalled_after: 5 seconds, stalled_times: 1")
    with started("run", file, folder=tmp_path) as run:
        until(lambda: bool(world.events("restarting")) or run.process.poll() is not None, f"a restart\n{run.said}")
        assert run.process.poll() is None, run.said

    (event,) = world.events("restarting")
    assert "the query 'out' has not finished a batch for" in str(event["reason"])


GREEDY = """
import pathlib

MARK = pathlib.Path({mark!r})


def bad(rows, number):
    if not MARK.exists():
        MARK.touch()
        gateway = rows.sparkSession.sparkContext._gateway
        kept = [gateway.new_array(gateway.jvm.long, 20_000_000) for _ in range(20)]
        assert kept
"""


@pytest.mark.faults
def test_a_driver_that_is_out_of_memory_ends_at_once_and_a_new_one_goes_on(world: World, tmp_path: Path):
    (tmp_path / "bad.py").write_text(GREEDY.format(mark=str(tmp_path / "mark")))
    world.feed(10)
    with started("run", world.write(FAILING), folder=tmp_path) as run:
        until(lambda: world.commits() > 0 or run.process.poll() is not None, f"a batch\n{run.said}")
        assert run.process.poll() is None, run.said
        run.process.terminate()
        assert run.process.wait(120) == 0, run.said

    (event,) = world.events("restarting")
    assert event["reason"] == "the driver's JVM has died: it was out of memory; raise spark.driver.memory"
