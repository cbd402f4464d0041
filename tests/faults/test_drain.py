"""Told to stop: the running batch is finished and committed, no other begins, no process is left."""

from __future__ import annotations

import fcntl
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
from tests.services.command import Running, penstock, started, until

from penstock.errors import TRY_AGAIN
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
def test_a_batch_that_is_left_is_repeated_and_one_that_a_stop_waits_for_is_not(world: World, tmp_path: Path):
    (tmp_path / "slow.py").write_text(WAIT.format(folder=str(tmp_path)))
    file = world.write(SLOW, most=100)
    world.feed(600)

    left_after_the_stated_time(tmp_path, file)
    left_at_the_second_signal(tmp_path, file)
    finished(world, tmp_path, file)
    # Abandoned twice, perhaps in the middle of sending: the topic is at-least-once, the folder is not.
    repeated = world.repeated()
    assert repeated <= 200
    run_with_a_pipe_that_nobody_reads(world, tmp_path, file)

    world.judge(repeated=repeated)


def in_batch_1(folder: Path, run: Running) -> None:
    until(lambda: (folder / "begun-1").exists() or run.process.poll() is not None, f"batch 1\n{run.said}")
    assert run.process.poll() is None, run.said
    (folder / "begun-1").unlink()


def living(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [each for each in processes if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]


def left_after_the_stated_time(folder: Path, file: Path) -> None:
    """A batch that does not end within --drain-seconds is abandoned."""
    with started("run", file, "--drain-seconds", "2", folder=folder) as run:
        in_batch_1(folder, run)
        run.process.terminate()
        assert run.process.wait(60) == TRY_AGAIN, run.said
        assert "did not end within 2 s" in run.said


def left_at_the_second_signal(folder: Path, file: Path) -> None:
    """A second signal stops at once, and no process is left."""
    with started("run", file, folder=folder) as run:
        in_batch_1(folder, run)
        family = run.family
        run.process.send_signal(signal.SIGINT)
        until(lambda: "draining" in run.said, f"the drain\n{run.said}")
        run.process.send_signal(signal.SIGINT)
        assert run.process.wait(10) == 1, run.said
    assert not living(family)


def finished(world: World, folder: Path, file: Path) -> None:
    """A stop in the middle of a batch waits for it, and no other begins."""
    port = free_port()
    with started("run", file, "--health-port", str(port), folder=folder) as run:
        in_batch_1(folder, run)
        until(lambda: asked(port, "/ready")[0] == 200, "readiness")
        status, health = asked(port, "/health")
        assert (status, health["queries"]) == (200, {"out": True})
        family = run.family
        stop = subprocess.Popen(
            [sys.executable, "-m", "penstock", "stop", "copy"], cwd=folder, stdout=subprocess.PIPE, text=True
        )
        until(lambda: "draining" in run.said, f"the drain\n{run.said}")
        assert asked(port, "/ready")[0] == 503
        (folder / "go-on").touch()
        assert run.process.wait(60) == 0, run.said
        assert stop.communicate(timeout=60)[0] == "copy has stopped\n"

    assert not living(family)
    assert world.last("commits") == world.last("offsets") == 1, "batch 1 was finished and no other begun"
    told = [each["what"] for each in world.events()]
    assert told.index("drained") > max(place for place, what in enumerate(told) if what == "batch")


def run_with_a_pipe_that_nobody_reads(world: World, folder: Path, file: Path) -> None:
    """Standard output and error that are full do not hold the pipeline up; it reads the rest and is stopped."""
    unread, full = os.pipe()
    # What fits into a pipe is little; make it less.
    fcntl.fcntl(full, fcntl.F_SETPIPE_SZ, 4096)
    os.set_blocking(full, False)
    try:
        while True:
            os.write(full, b"x" * 512)
    except BlockingIOError:
        os.set_blocking(full, True)
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock", "run", str(file)], cwd=folder, stdout=full, stderr=full
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
    assert penstock("stop", "copy", folder=folder).stdout == "copy is not running\n"


FAILING = """
    name: copy
    restart: {{limit: 2, backoff: 100 milliseconds{more}}}
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
#: Batch 0 is out of memory the first time, batch 1 always fails.
GREEDY = """
import pathlib

MARK = pathlib.Path({mark!r})


def bad(rows, number):
    if number == 1:
        raise ConnectionError("no luck")
    if not MARK.exists():
        MARK.touch()
        gateway = rows.sparkSession.sparkContext._gateway
        kept = [gateway.new_array(gateway.jvm.long, 20_000_000) for _ in range(20)]
        assert kept
"""


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


@pytest.mark.faults
def test_out_of_memory_a_new_driver_goes_on_and_what_always_fails_is_restarted_alone_then_anew_and_then_given_up(
    world: World, tmp_path: Path
):
    (tmp_path / "bad.py").write_text(GREEDY.format(mark=str(tmp_path / "mark")))
    world.feed(10)

    ran = penstock("run", world.write(FAILING, most=5), folder=tmp_path)

    out_of_memory, failed = (str(event["reason"]) for event in world.events("restarting"))
    assert out_of_memory == "the driver's JVM has died: it was out of memory; raise spark.driver.memory"
    assert world.commits() == 1, "the next driver has written the batch"
    assert "ConnectionError: no luck" in failed
    assert len(world.events("query_restarting")) == 2, "once in each of the last two drivers"
    assert len(world.events("gave_up")) == 1
    assert ran.returncode == TRY_AGAIN
    assert "ConnectionError: no luck" in ran.stderr
    assert "2 restarts within 10 minutes did not help, so there are no more" in ran.stderr
    assert "Traceback" not in ran.stderr
