"""A power cut: what is on the disk at some instant, with the newest file of the checkpoint perhaps empty."""

from __future__ import annotations

import json
import random
import re
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.faults.world import World
from tests.services.command import penstock, started, until

from penstock.errors import TRY_AGAIN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDER = """
    name: copy
    restart: {{limit: 0}}
    spark: {{spark.driver.memory: 1g}}
    sources:
      ids:
        kafka: {{servers: "{servers}", topics: [{source}], start: earliest, records_per_trigger: {most}}}
        value: string
    sinks:
      out:
        from: ids
        to:
          - files: {{path: out, format: parquet}}
          - {{name: second, files: {{path: second, format: json}}}}
"""


def cuts(world: World, count: int, chance: random.Random) -> list[World]:
    """What the disk held at so many instants of a run."""
    found: list[World] = []
    with started("run", "copy.yaml", folder=world.folder) as run:
        for number in range(count):
            before = world.last("commits")
            world.feed(400)
            until(lambda now=before: world.last("commits") > now or run.process.poll() is not None, "a batch")
            assert run.process.poll() is None, run.said
            # At some instant of the batches that follow.
            until(lambda: chance.random() < 0.3, "an instant")
            place = world.folder.parent / f"{world.folder.name}-cut-{number}"
            copied(world.folder, place)
            found.append(World(place, world.kafka, world.sent))
        run.process.terminate()
        assert run.process.wait(120) == 0, run.said
    return found


def copied(source: Path, target: Path) -> None:
    """File by file, while they change: those that vanish in between are not there.

    Without the lease: in a copy it is that of another folder, whose driver might still run.
    """
    target.mkdir()
    for file in sorted(each for each in source.rglob("*") if not each.name.startswith("lease")):
        place = target / file.relative_to(source)
        try:
            if file.is_dir():
                place.mkdir(exist_ok=True)
            elif not file.is_symlink():
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, place)
        except FileNotFoundError:
            continue


def judged(cut: World, damage: str, spark: SparkSession, mend: Callable[[], None] = lambda: None) -> str:
    """How a run from a cut ended: it went on with nothing lost or twice, or it named the file at fault."""
    how = "went on"
    if damage:
        newest = max((cut.checkpoint / damage).glob("[0-9]*"), key=lambda file: int(file.name))
        newest.write_bytes(b"")
        ran = penstock("run", "copy.yaml", "--once", folder=cut.folder)
        assert "Traceback" not in ran.stderr
        if ran.returncode != 0:
            assert re.search(rf"{damage}/\d+", ran.stderr), ran.stderr
            restored = penstock("checkpoint", "restore", "copy", folder=cut.folder)
            assert restored.returncode == 0, restored.stderr
            mend()
            how = "stopped, was restored, went on"
    cut.resume(spark)
    assert cut.files() == Counter(cut.sent), f"lost or doubled after a cut with {damage or 'no'} damage"
    return how


def power_cuts(world: World, seed: int, count: int, spark: SparkSession) -> None:
    chance = random.Random(seed)
    world.write(FOLDER, most=100)
    world.feed(400)
    for number, cut in enumerate(cuts(world, count, chance)):
        damage = ("", "offsets", "commits")[number % 3]
        print(f"cut {number + 1}: {damage or 'nothing'} emptied: {judged(cut, damage, spark)}", flush=True)


@pytest.mark.faults
def test_three_power_cuts_lose_nothing(world: World, seed: int, spark: SparkSession):
    power_cuts(world, seed, 3, spark)


@pytest.mark.faults
def test_a_power_cut_between_two_targets_keeps_what_the_batch_was_of(world: World, spark: SparkSession):
    world.write(FOLDER, most=1000)
    world.feed(400)
    blocked = world.folder / "second"
    blocked.write_text("no folder")
    assert penstock("run", "copy.yaml", "--once", folder=world.folder).returncode == TRY_AGAIN
    assert sum(world.files().values()) == 400, "the first target has the batch"
    world.feed(200)

    assert judged(world, "offsets", spark, mend=blocked.unlink) == "stopped, was restored, went on"

    second = [json.loads(line) for file in blocked.rglob("*.json") for line in file.read_text().splitlines()]
    assert Counter(row["value"] for row in second) == Counter(world.sent)


@pytest.mark.soak
def test_sixty_power_cuts_lose_nothing(world: World, seed: int, spark: SparkSession):
    power_cuts(world, seed, 60, spark)
