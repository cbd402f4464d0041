"""A power cut for real: storage and targets are on a disk of their own, and go on from an image of its blocks.

What was never fsynced is not in the image, whatever the files seem to hold. The run is stopped for the copy and then
killed, so that no target outside of the disk has more than it had at that moment. `make soak` cuts 40 times.
"""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from tests.faults.world import World
from tests.services.command import penstock, started, until

TEXT = """
    name: copy
    storage: disk/storage
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
          - files: {{path: disk/out, format: parquet}}
          - delta: {{path: disk/delta}}
          - jdbc: {{url: "jdbc:sqlite:{more}/disk/shop.db", table: ids, create: true}}
          - kafka: {{servers: "{servers}", topic: {target}, value_column: value, delivery: exactly-once}}
      lake: {{from: ids, files: {{path: disk/lake, format: json}}}}
"""


class Disk:
    """A file system in a file."""

    def __init__(self, folder: Path) -> None:
        self.place, self.image, self.cut_image = folder / "disk", folder / "disk.img", folder / "cut.img"
        self.place.mkdir()
        with self.image.open("wb") as file:
            file.truncate(256 * 1024 * 1024)
        subprocess.run(["mkfs.ext4", "-q", self.image], check=True)
        self.mount()
        self.place.chmod(0o700)

    def mount(self) -> None:
        subprocess.run(["mount", "-o", "loop", self.image, self.place], check=True)

    def unmount(self) -> None:
        subprocess.run(["umount", "-l", self.place], check=True)

    def copy(self) -> None:
        """The blocks as they are now, with nothing flushed before."""
        subprocess.run(["cp", "--sparse=always", self.image, self.cut_image], check=True)

    def become_copy(self) -> None:
        """What is there after the power is back."""
        self.unmount()
        shutil.move(self.cut_image, self.image)
        self.mount()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    made = Disk(tmp_path)
    yield made
    made.unmount()


def newest(commits: Path) -> int:
    return max((int(each.name) for each in commits.glob("[0-9]*")), default=-1)


def cut_power(world: World, disk: Disk, chance: random.Random) -> None:
    """Run, and lose the power at some moment of some batch."""
    commits = disk.place / "storage/copy/checkpoints/out/commits"
    with started("run", "copy.yaml", folder=world.folder) as run:
        wanted = newest(commits) + chance.randrange(1, 4)
        until(lambda: newest(commits) >= wanted or run.process.poll() is not None, f"batches\n{run.said}")
        assert run.process.poll() is None, run.said
        until(lambda: chance.random() < 0.2, "some moment")
        family = run.family
        for each in family:
            with suppress(psutil.NoSuchProcess):
                each.send_signal(signal.SIGSTOP)
        disk.copy()
        run.kill()
    disk.become_copy()


def judge(world: World, disk: Disk) -> None:
    """Every id is in every target, once; none of the readers is Spark."""
    world.judge_targets(disk.place)
    assert Counter(lake(disk.place / "lake")) == Counter(world.sent), "native files"


def lake(folder: Path) -> Iterator[str]:
    """The rows of the files that Spark's log names."""
    logs = folder / "_spark_metadata"
    compacted = sorted(logs.glob("[0-9]*.compact"), key=lambda file: int(file.stem))[-1:]
    newest = int(compacted[0].stem) if compacted else -1
    later = [file for file in logs.glob("[0-9]*") if file.name.isdigit() and int(file.name) > newest]
    for log in [*compacted, *later]:
        for line in log.read_text().splitlines()[1:]:
            data = Path(json.loads(line)["path"].removeprefix("file://"))
            yield from (json.loads(row)["value"] for row in data.read_text().splitlines())


def power_cuts(world: World, disk: Disk, seed: int, count: int) -> None:
    chance = random.Random(seed)
    world.write(TEXT, most=200, more=str(world.folder))
    for number in range(count):
        world.feed(1000)
        cut_power(world, disk, chance)
        ran = penstock("run", "copy.yaml", "--once", folder=world.folder)
        ended = "went on"
        if ran.returncode:
            assert "Traceback" not in ran.stderr, ran.stderr
            restored = penstock("checkpoint", "restore", "copy.yaml", folder=world.folder)
            assert restored.returncode == 0, f"{ran.stderr}\n{restored.stdout}\n{restored.stderr}"
            again = penstock("run", "copy.yaml", "--once", folder=world.folder)
            assert again.returncode == 0, f"{ran.stderr}\n{restored.stdout}\n{again.stderr}"
            ended = f"was refused, restored ({restored.stdout.count(chr(10))} changes) and went on"
        judge(world, disk)
        print(f"FAULT_SEED={seed}, cut {number + 1}: {ended}", flush=True)


@pytest.mark.faults
def test_a_power_cut_loses_and_doubles_nothing_in_five_kinds_of_targets(world: World, disk: Disk, seed: int):
    power_cuts(world, disk, seed, 1)


@pytest.mark.soak
def test_forty_power_cuts_lose_and_double_nothing_in_five_kinds_of_targets(world: World, disk: Disk, seed: int):
    power_cuts(world, disk, seed, 40)
