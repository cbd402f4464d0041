"""SIGKILL at every step of a batch, of every process: nothing lost, nothing twice."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from deltalake import DeltaTable
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


#: Every moment and every process once.
EACH_ONCE = (
    ("before the offset log", "the driver's Python alone"),
    ("after the offset log", "everything"),
    ("inside a target's write", "the JVM alone"),
    ("after the write, before the commit", "everything"),
)
VICTIMS: dict[str, Callable[[list[psutil.Process]], list[psutil.Process]]] = {
    "everything": lambda session: session,
    "the driver's Python alone": lambda session: session[:1],
    "the JVM alone": lambda session: [each for each in session if is_java(each)],
}


def schedule(chance: random.Random, count: int) -> Iterator[tuple[str, str]]:
    """When to kill what: each once, then by chance."""
    yield from EACH_ONCE
    for _ in range(count - len(EACH_ONCE)):
        yield chance.choice([*MOMENTS, "after a while"]), chance.choice(list(VICTIMS))


def strike(world: World, run: Running, moment: str, victims: str, chance: random.Random) -> None:
    """Kill the driver, all of it or a part, at a moment."""
    until(lambda: has_jvm(run) or run.process.poll() is not None, f"a driver\n{run.said[-2000:]}")
    before = world.last("commits")
    until(lambda: world.last("commits") > before or run.process.poll() is not None, f"a batch\n{run.said[-2000:]}")
    assert run.process.poll() is None, run.said
    chosen = VICTIMS[victims](session_of(run.driver))
    if moment in MOMENTS:
        at_once(lambda: MOMENTS[moment](world))
    else:
        time.sleep(chance.random())
    kill_all(chosen)


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


def living(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [each for each in processes if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]


def read_all(world: World, run: Running) -> None:
    until(lambda: world.has_all() or run.process.poll() is not None, f"all ids\n{run.said[-2000:]}")
    assert run.process.poll() is None, run.said


def kills(world: World, run: Running, seed: float, count: int, feed_each: int) -> None:
    """Kill the driver so many times, with records under way; afterwards all of them are there."""
    chance = random.Random(seed)
    for number, (moment, victims) in enumerate(schedule(chance, count)):
        print(f"kill {number + 1}: {moment}, {victims}, after {world.commits()} batches", flush=True)
        world.feed(feed_each)
        strike(world, run, moment, victims, chance)
    read_all(world, run)


FOUR = """
    name: copy
    restart: {{limit: 1000, backoff: 100 milliseconds, most: 1 second}}
    spark: {{spark.driver.memory: 1g}}
    sources:
      ids:
        kafka: {{servers: "{servers}", topics: [{source}], start: earliest, records_per_trigger: {most}}}
        value: string
        watermark: {{column: timestamp, delay: 1 hour}}
    steps:
      totals: >
        SELECT window.start AS start, count(*) AS n FROM ids GROUP BY window(timestamp, '10 seconds')
    sinks:
      out:
        from: ids
        to:
          - files: {{path: out, format: parquet}}
          - delta: {{path: delta}}
          - jdbc: {{url: "jdbc:sqlite:{more}/shop.db", table: ids, create: true}}
          - kafka: {{servers: "{servers}", topic: {target}, value_column: value, delivery: exactly-once}}
      sums: {{from: totals, mode: update, delta: {{path: totals, key: [start]}}}}
"""


@pytest.mark.soak
def test_a_hundred_kills_and_a_million_records_lose_and_double_nothing(world: World, seed: int):
    """Four targets and a windowed aggregate; every tenth kill is the supervisor's, alone or with all it has started."""
    chance = random.Random(seed)
    file = world.write(FOUR, most=5000, more=str(world.folder))
    world.feed(10_000)
    for number in range(10):
        with started("run", file, folder=world.folder) as run:
            kills(world, run, chance.random(), 9, feed_each=10_000)
            if number % 2:
                run.process.kill()
    world.feed(90_000)
    with started("run", file, "--once", folder=world.folder) as run:
        # The aggregate may have most of the records before it.
        assert run.process.wait(3600) == 0, run.said
    world.judge_targets(world.folder)
    totals = DeltaTable(str(world.folder / "totals")).to_pyarrow_table()["n"].to_pylist()
    assert sum(totals) == len(world.sent) == 1_000_000


WORKER = """
    name: copy
    restart: {{limit: 1000, backoff: 100 milliseconds, most: 1 second}}
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
def test_kills_at_every_step_and_of_every_process_lose_nothing(world: World, seed: int):
    (world.folder / "same.py").write_text(SAME.format(mark=str(world.folder / "die")))
    file = world.write(WORKER, most=400)
    with started("run", file, folder=world.folder) as run:
        killed_worker(world, run)

        kills(world, run, seed, count=len(EACH_ONCE), feed_each=1200)

        # The query restarted once, and each kill may repeat the batch under way in the topic, which is at-least-once.
        world.judge(repeated=(1 + len(EACH_ONCE)) * 400)
        causes = " ".join(str(event["reason"]) for event in world.events("restarting"))
        assert "the driver was killed by SIGKILL" in causes
        assert "the driver's JVM has died" in causes
        told = penstock("history", "copy", folder=world.folder).stdout
        assert "restart 1 in" in told
        assert "out: batch" in told

        killed_supervisor(world, run, file)


def killed_worker(world: World, run: Running) -> None:
    """A Python worker that is killed costs a restart of its query alone."""
    world.feed(400)
    read_all(world, run)
    driver = run.driver.pid
    (world.folder / "die").touch()
    world.feed(800)
    read_all(world, run)

    assert run.driver.pid == driver, "the driver was not to be restarted"
    assert [event["sink"] for event in world.events("query_restarting")] == ["out"]


def killed_supervisor(world: World, run: Running, file: Path) -> None:
    """The driver of a supervisor that is killed ends by itself, and the next run continues."""
    repeated, before = world.repeated(), world.commits()
    world.feed(2000)
    until(lambda: world.commits() > before or run.process.poll() is not None, f"batches\n{run.said}")
    family = run.family[1:]
    second = penstock("run", file, folder=world.folder)
    assert second.returncode == 1, second.stderr
    assert f"is held by pid {run.process.pid} on " in second.stderr

    world.feed(1200)
    run.process.kill()
    run.process.wait()
    again = penstock("run", file, "--once", folder=world.folder)

    assert again.returncode == 0, again.stderr
    assert "waiting for the driver of a killed run to end" in again.stderr or not living(family)
    assert not living(family), "the driver of the killed supervisor is still there"
    assert [event["why"] for event in world.events("draining")] == ["the supervisor is gone"]
    # The driver has drained, so that not even the topic has more of anything twice.
    world.judge(repeated=repeated)
