"""SIGKILL at every step of a batch, of every process: nothing lost, nothing twice."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from tests.faults.world import World, at_once, kill_all, session_of
from tests.services.command import Running, penstock, started, until


def offsets_are_not_written(world: World) -> bool:
    return world.last("commits") >= 0 and world.last("commits") == world.last("offsets")


def offsets_are_written(world: World) -> bool:
    return world.last("offsets") > world.last("commits")


def targets_are_being_written(world: World) -> bool:
    return any((world.folder / "out" / "_writing").glob("*"))


def targets_are_written(world: World) -> bool:
    number = world.last("offsets")
    done = (world.folder / "out").glob(f"batch=*-{number:09d}")
    return number > world.last("commits") and any(done)


MOMENTS: dict[str, Callable[[World], bool]] = {
    "before the offset log": offsets_are_not_written,
    "after the offset log": offsets_are_written,
    "inside a target's write": targets_are_being_written,
    "after the write, before the commit": targets_are_written,
}


def schedule(seed: int, count: int) -> Iterator[str]:
    """Every moment and every process once, then by chance."""
    kinds = [*MOMENTS, "the driver's Python alone", "the JVM alone", "after a while"]
    chance = random.Random(seed)
    yield from kinds
    for _ in range(count - len(kinds)):
        yield chance.choice(kinds)


def strike(world: World, run: Running, what: str, chance: random.Random) -> None:
    """Kill the driver, all of it or a part, at a moment."""
    until(lambda: driver_of(run) is not None and has_jvm(run), f"a driver\n{run.said[-2000:]}")
    before = world.last("commits")
    until(lambda: world.last("commits") > before or run.process.poll() is not None, f"a batch\n{run.said[-2000:]}")
    assert run.process.poll() is None, run.said
    victims = session_of(run.driver)
    if what in MOMENTS:
        at_once(lambda: MOMENTS[what](world))
    elif what == "after a while":
        time.sleep(chance.random())
    elif what == "the driver's Python alone":
        victims = victims[:1]
    else:
        victims = [each for each in victims if is_java(each)]
    kill_all(victims)


def driver_of(run: Running) -> psutil.Process | None:
    try:
        return run.driver
    except (StopIteration, psutil.NoSuchProcess):
        return None


def has_jvm(run: Running) -> bool:
    driver = driver_of(run)
    return driver is not None and any(is_java(each) for each in driver.children())


def is_java(process: psutil.Process) -> bool:
    try:
        return process.name() == "java"
    except psutil.NoSuchProcess:
        # Workers come and go, and the shell that becomes Java is gone a moment later.
        return False


def soak(world: World, seed: int, kills: int, batches_of: int, feed_each: int) -> None:
    chance = random.Random(seed)
    file = world.write(most=batches_of)
    world.feed(feed_each)
    with started("run", file, folder=world.folder) as run:
        for number, what in enumerate(schedule(seed, kills)):
            print(f"kill {number + 1}: {what}, after {world.commits()} batches", flush=True)
            world.feed(feed_each)
            strike(world, run, what, chance)
        until(lambda: world.has_all() or run.process.poll() is not None, f"all ids\n{run.said[-2000:]}")
        family = run.family
        run.process.terminate()
        assert run.process.wait(120) == 0, run.said
        assert not [each for each in family if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]
    # Each kill may repeat the batch under way in the topic, which is at-least-once.
    world.judge(repeated=kills * batches_of)
    assert len(world.events("restarting")) >= kills


@pytest.mark.faults
def test_kills_at_every_step_and_of_every_process_lose_nothing(world: World, seed: int):
    soak(world, seed, kills=7, batches_of=400, feed_each=2000)

    causes = " ".join(str(event["reason"]) for event in world.events("restarting"))
    assert "the driver was killed by SIGKILL" in causes
    assert "the driver's JVM has died" in causes
    told = penstock("history", "copy", folder=world.folder).stdout
    assert "restart 1 in" in told
    assert "out: batch" in told


@pytest.mark.soak
def test_a_hundred_kills_and_a_million_records_lose_nothing(world: World, seed: int):
    soak(world, seed, kills=100, batches_of=5000, feed_each=10_000)

    assert len(world.sent) >= 1_000_000


@pytest.mark.faults
def test_a_killed_supervisor_is_followed_by_its_driver_and_the_next_run_goes_on(world: World, seed: int):
    file = world.write(most=200)
    world.feed(3000)
    with started("run", file, folder=world.folder) as run:
        until(lambda: world.commits() > 1 or run.process.poll() is not None, f"batches\n{run.said}")
        family = run.family[1:]
        second = penstock("run", file, folder=world.folder)
        assert second.returncode == 1, second.stderr
        assert f"is held by pid {run.process.pid} on " in second.stderr

        run.process.kill()
        run.process.wait()
        again = penstock("run", file, "--once", folder=world.folder)

    assert again.returncode == 0, again.stderr
    assert "waiting for the driver of a killed run to end" in again.stderr or not living(family)
    assert not living(family), "the driver of the killed supervisor is still there"
    assert [event["why"] for event in world.events("draining")] == ["the supervisor is gone"]
    # The driver has drained, so that not even the topic has anything twice.
    world.judge()


def living(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [each for each in processes if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]


WORKER = """
    name: copy
    restart: {{limit: 5, backoff: 100 milliseconds}}
    spark: {{spark.driver.memory: 1g}}
    sources:
      ids:
        kafka: {{servers: "{servers}", topics: [{source}], start: earliest, records_per_trigger: {most}}}
        value: string
    steps: {{same: {{python: "same:same", reads: [ids]}}}}
    sinks:
      out:
        from: same
        to:
          - files: {{path: out, format: parquet}}
          - kafka: {{servers: "{servers}", topic: {target}, value_column: value}}
"""
SAME = """
import os, pathlib, signal
from pyspark.sql import functions as F

MARK = pathlib.Path({mark!r})


@F.udf("string")
def carried(value):
    if MARK.exists():
        MARK.unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    return value


def same(ids):
    return ids.select(carried("value").alias("value"))
"""


@pytest.mark.faults
def test_a_killed_python_worker_costs_a_restart_of_its_query_alone(world: World, tmp_path: Path):
    mark = tmp_path / "die"
    (tmp_path / "same.py").write_text(SAME.format(mark=str(mark)))
    file = world.write(WORKER, most=300)
    world.feed(600)
    with started("run", file, folder=tmp_path) as run:
        until(lambda: world.has_all() or run.process.poll() is not None, f"the first ids\n{run.said}")
        driver = run.driver.pid
        mark.touch()
        world.feed(600)
        until(lambda: world.has_all() or run.process.poll() is not None, f"all ids\n{run.said}")
        assert run.process.poll() is None, run.said
        assert run.driver.pid == driver, "the driver was not to be restarted"
        run.process.terminate()
        assert run.process.wait(120) == 0, run.said

    assert [event["sink"] for event in world.events("query_restarting")] == ["out"]
    world.judge(repeated=300)
