"""What can happen to a checkpoint and its disk: never a silent loss, never a silent repetition."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.dataset
import pytest
from tests.faults.world import COPY, World
from tests.services.command import penstock, started, until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: A second sink beside the one of COPY, which Spark writes itself, with a log of its own beside the data.
LAKE = COPY + "      lake: {{from: ids, files: {{path: lake, format: parquet}}}}\n"


def refused(folder: Path) -> str:
    """What it says when it does not start; Spark is not even asked."""
    ran = penstock("run", "copy.yaml", folder=folder)
    assert ran.returncode == 1, ran.stderr
    assert "starting Spark" not in ran.stderr
    assert "Traceback" not in ran.stderr
    return ran.stderr


@pytest.mark.faults
def test_a_checkpoint_or_a_sink_log_that_was_changed_or_lost_is_refused_and_put_back(
    world: World, tmp_path: Path, spark: SparkSession
):
    world.write(LAKE, most=200)
    world.feed(400)
    assert penstock("run", "copy.yaml", "--once", folder=tmp_path).returncode == 0
    made = penstock("checkpoint", "backup", "copy", folder=tmp_path)
    assert made.returncode == 0, made.stderr

    changed(world)
    rolled_back_and_lost(world, made.stdout.strip())
    sink_log_damaged(world)

    shown = penstock("checkpoint", "show", "copy", folder=tmp_path)
    assert f"{world.last('offsets') + 1} batches committed" in shown.stdout
    world.feed(200)
    world.resume(spark)
    world.judge()
    lake = pyarrow.dataset.dataset(tmp_path / "lake", format="parquet").to_table()["value"].to_pylist()
    assert Counter(lake) == Counter(world.sent)


def changed(world: World) -> None:
    """A file of the checkpoint with other offsets, cut short or empty is refused before the first row, and restored."""
    last = world.last("offsets")
    file = world.checkpoint / "offsets" / str(last)
    text = file.read_text()

    head, _, tail = text.rpartition("200")
    assert head
    file.write_text(f"{head}100{tail}")
    assert f"offsets/{last} has changed since batch {last} was committed" in refused(world.folder)
    file.write_text(text[:-1])
    assert f"offsets/{last}" in refused(world.folder)
    file.write_text("")
    assert f"offsets/{last} is empty" in refused(world.folder)
    verified = penstock("checkpoint", "verify", "copy", folder=world.folder)
    assert (verified.returncode, f"offsets/{last} is empty" in verified.stdout) == (1, True)

    restored = penstock("checkpoint", "restore", "copy", folder=world.folder)

    assert restored.returncode == 0, restored.stderr
    assert file.read_text() == text


def rolled_back_and_lost(world: World, backup: str) -> None:
    """A checkpoint without its last batch is refused, and so is none at all; a backup brings it back."""
    last = world.last("offsets")
    for log in ("offsets", "commits"):
        (world.checkpoint / log / str(last)).unlink()
    assert f"ends with batch {last - 1}, but batch {last} is in the journal" in refused(world.folder)

    shutil.rmtree(world.checkpoint)
    assert "no checkpoint at" in refused(world.folder)

    put_back = penstock("checkpoint", "restore", "copy", "--from", backup, folder=world.folder)
    assert put_back.returncode == 0, put_back.stderr
    assert world.last("commits") == last


def sink_log_damaged(world: World) -> None:
    """The log that Spark keeps beside the data is compared with the checkpoint, even with a storage that is new."""
    folder = world.folder
    last = max(int(file.name) for file in (folder / "lake" / "_spark_metadata").glob("[0-9]*"))
    log = folder / "lake" / "_spark_metadata" / str(last)
    text = log.read_text()
    log.write_text("v1")
    assert f"_spark_metadata/{last} has changed since batch {last} wrote it" in refused(folder)
    log.write_text(text)

    shutil.move(world.storage, folder / "elsewhere")
    assert f"Spark would skip the first {last + 1} batches" in refused(folder)
    shutil.rmtree(world.storage)
    shutil.move(folder / "elsewhere", world.storage)


COUNTS = """
    name: copy
    restart: {{limit: 5, backoff: 100 milliseconds}}
    spark: {{spark.driver.memory: 1g, spark.sql.shuffle.partitions: 1}}
    sources:
      ids:
        kafka: {{servers: "{servers}", topics: [{source}], start: earliest, records_per_trigger: {most}}}
        value: string
    steps: {{counts: "SELECT {more} AS what, count(*) AS n FROM ids GROUP BY {more}"}}
    sinks:
      out: {{from: counts, mode: update, kafka: {{servers: "{servers}", topic: {target}}}}}
"""


@pytest.mark.faults
def test_an_edit_that_does_not_fit_the_state_stops_at_once_and_the_old_file_goes_on(
    world: World, tmp_path: Path, spark: SparkSession
):
    world.write(COUNTS, most=1000, more="length(value)")
    world.feed(100)
    world.resume(spark)
    world.feed(100)

    world.write(COUNTS, most=1000, more="value")
    edited = penstock("run", "copy.yaml", folder=tmp_path)

    assert edited.returncode == 1
    assert "sink 'out'" in edited.stderr
    assert "the state in its checkpoint is of " in edited.stderr
    assert "Traceback" not in edited.stderr
    assert world.events("restarting") == world.events("query_restarting") == []

    world.write(COUNTS, most=1000, more="length(value)")
    world.resume(spark)
    newest: dict[int, int] = {}
    for told in map(json.loads, world.records()):
        newest[told["what"]] = max(told["n"], newest.get(told["what"], 0))
    assert sum(newest.values()) == len(world.sent)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A disk of eight megabytes."""
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m,mode=700", "none", str(place)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"a small disk needs the right to mount one: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def fill(file: Path) -> None:
    with file.open("wb", buffering=0) as ballast:
        while True:
            ballast.write(b"x" * 4096)


@pytest.mark.faults
def test_a_full_disk_is_survived_and_nothing_is_lost_once_there_is_space(world: World, tmp_path: Path, small: Path):
    text = COPY.replace("name: copy", "name: copy\n    storage: small").replace("path: out", "path: small/out")
    world.write(text, most=200)
    world.feed(400)
    storage = small / "copy"
    with started("run", "copy.yaml", folder=tmp_path) as run:
        commits = storage / "checkpoints" / "out" / "commits"
        until(lambda: any(commits.glob("[0-9]*")) or run.process.poll() is not None, f"a batch\n{run.said}")
        ballast = small / "ballast"
        with pytest.raises(OSError, match="No space left"):
            fill(ballast)
        world.feed(600)
        until(lambda: "restart" in run.said or run.process.poll() is not None, f"a failure\n{run.said}")
        ballast.unlink()
        (tmp_path / "out").symlink_to(small / "out")
        until(lambda: world.has_all() or run.process.poll() is not None, f"all ids\n{run.said}")
        run.process.terminate()
        assert run.process.wait(120) == 0, run.said
    world.judge(repeated=600)
