"""Random damage to every kind of file in a storage: named and restored, or harmless; never silent.

A pipeline with a state, a folder of batches, a native file sink and a Python target has run a few batches and been
killed inside the next one. A file of its storage or of its output's log is damaged, and the pipeline starts as the
driver starts it, with one more row to read. The seed is fixed here; `make soak` draws one, and 800 damages.
"""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow.dataset
import pytest
from tests.conftest import Project

from penstock.driver.preflight import Preflight
from penstock.driver.recorder import append_batch, sink_storages
from penstock.engine import start
from penstock.errors import PenstockError
from penstock.events import ignore_event
from penstock.model import Pipeline
from penstock.spark.internals import wait_for_listeners
from penstock.storage.layout import Storage
from penstock.storage.lease import LeaseAcquirer
from penstock.storage.restore import from_journal, remove_damaged_sources, reset_sink, timestamp
from penstock.storage.verify import find_problems

TEXT = """
name: p
sources:
  rows: {files: {path: in, format: json, schema: "n bigint, k bigint", files_per_trigger: 1}}
steps:
  totals: SELECT k, sum(n) AS total FROM rows GROUP BY k
sinks:
  lake: {from: rows, files: {path: lake, format: json}}
  out:
    from: rows
    to:
      - files: {path: out, format: json}
      - foreach_batch: {python: "damage_target:keep"}
  sums: {from: totals, mode: update, foreach_batch: {python: "damage_target:sums"}}
"""
TARGET = """
import json
from pathlib import Path

HERE = Path(__file__).parent


def keep(rows, number):
    if (HERE / "fail").exists():
        raise RuntimeError("killed here")


def sums(rows, number):
    for row in rows.collect():
        place = HERE / "sums" / f"{row.k}.json"
        place.parent.mkdir(exist_ok=True)
        place.write_text(json.dumps(row.total))
"""
BATCHES = 4


class World:
    """The folder of the pipeline, and how it is started and judged."""

    def __init__(self, project: Project) -> None:
        self.project, self.folder, self.fed = project, project.folder, 0

    @property
    def pipeline(self) -> Pipeline:
        return self.project.load(TEXT)

    def feed(self) -> None:
        self.project.put(
            f"in/{self.fed}.json", json.dumps({"n": self.fed, "k": self.fed % 2}), at=1_700_000_000 + self.fed
        )
        self.fed += 1

    def run(self, only: str = "") -> None:
        """As the driver does it: lease, preflight, queries, journal; one sink or all."""
        pipeline = self.pipeline
        pipeline = replace(pipeline, sinks=tuple(sink for sink in pipeline.sinks if only in ("", sink.name)))
        storage = Storage.of(pipeline)
        LeaseAcquirer(storage.lease, lambda _: None, stale_seconds=0.1, renew_seconds=0.1).acquire().release()
        storage.claim(pipeline)
        Preflight(pipeline, storage, ignore_event).run()
        known = sink_storages(pipeline, storage)
        queries = start(
            pipeline,
            self.project.spark,
            once=True,
            on_progress=lambda progress: append_batch(known[progress["name"]], progress),
        )
        try:
            queries.wait()
        finally:
            wait_for_listeners(self.project.spark, 60)
            queries.stop()

    def judge(self, only: str = "", *, doubled: bool = False) -> None:
        """Every row is in every output, once."""
        expected = Counter(range(self.fed))
        if only in ("", "out"):
            found = pyarrow.dataset.dataset(self.folder / "out", format="json").to_table()["n"].to_pylist()
            assert set(found) == set(expected) if doubled else Counter(found) == expected
        if only in ("", "lake"):
            rows = self.project.spark.read.schema("n bigint").json(f"{self.folder}/lake").collect()
            assert Counter(row.n for row in rows) == expected
        if only in ("", "sums"):
            totals = {int(file.stem): json.loads(file.read_text()) for file in (self.folder / "sums").glob("*.json")}
            assert totals == {key: sum(n for n in expected if n % 2 == key) for key in (0, 1)}


@pytest.fixture
def world(project: Project, monkeypatch: pytest.MonkeyPatch) -> World:
    """Some batches, and one more that the folder has and the Python target has not."""
    monkeypatch.syspath_prepend(str(project.folder))
    project.put("damage_target.py", TARGET)
    world = World(project)
    for _ in range(BATCHES):
        world.feed()
    world.run()
    world.feed()
    project.put("fail", "")
    with pytest.raises(PenstockError, match="killed here"):
        world.run()
    (project.folder / "fail").unlink()
    return world


def flip(file: Path, chance: random.Random) -> None:
    content = bytearray(file.read_bytes())
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    file.write_bytes(bytes(content))


def cut(file: Path, chance: random.Random) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: chance.randrange(len(content))])


def empty(file: Path, _chance: random.Random) -> None:
    file.write_bytes(b"")


def delete(file: Path, _chance: random.Random) -> None:
    file.unlink()


def swap(file: Path, chance: random.Random) -> None:
    others = [each for each in sorted(file.parent.iterdir()) if each.is_file() and each != file]
    other = chance.choice(others or [file])
    content = file.read_bytes()
    file.write_bytes(other.read_bytes())
    other.write_bytes(content)


DAMAGES: tuple[Callable[[Path, random.Random], None], ...] = (flip, cut, empty, delete, swap)


def damageable(folder: Path) -> list[Path]:
    """The files of the storage and of the log with Spark's output, without logs that nothing reads back."""
    parts = (".penstock", "lake/_spark_metadata")
    found = [file for part in parts for file in sorted((folder / part).rglob("*")) if file.is_file()]
    return [file for file in found if file.stat().st_size and "logs" not in file.parts]


def restore(world: World) -> list[str]:
    """What `penstock checkpoint restore` does; what it cannot put right."""
    pipeline = world.pipeline
    storage = Storage.of(pipeline)
    remove_damaged_sources(storage)
    known = sink_storages(pipeline, storage)
    for sink in known.values():
        from_journal(sink)
    return [str(problem) for sink in known.values() for problem in find_problems(sink, state=True)]


def outcome(world: World, file: Path, only: str, origin: Path) -> str:
    """How a start over a damaged file ends; fails if rows are lost or doubled, or nothing says what to do."""
    try:
        world.run(only)
    except PenstockError as error:
        said = str(error)
    else:
        world.judge(only)
        return "harmless"
    assert file.name.lstrip(".").removesuffix(".crc") in said or file.parent.name in said, f"not named: {said}"
    if "delete it" in said:
        file.unlink()
    left = restore(world)
    if not left:
        if contents(world.folder) == contents(origin):
            return "restored"
        try:
            world.run(only)
        except PenstockError as error:
            left = [str(error)]
        else:
            world.judge(only)
            return "restored, differently"
    assert all("penstock reset" in text or "backup" in text for text in left), left
    for name, sink in sink_storages(world.pipeline, Storage.of(world.pipeline)).items():
        if only in ("", name):
            reset_sink(sink, timestamp())
    world.run(only)
    world.judge(only, doubled=True)
    return "reset"


def contents(folder: Path) -> dict[str, bytes]:
    """The files of the storage, without Hadoop's checksums and what was moved aside."""
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in damageable(folder)
        if file.suffix != ".crc" and "before" not in file.parts and file.name not in ("lease", "pipeline.json")
    }


def sink_of(file: Path, folder: Path) -> str:
    """The sink that a file belongs to; '' if it is of all of them."""
    parts = file.relative_to(folder).parts
    if parts[0] == "lake":
        return "lake"
    return parts[3].removesuffix(".json") if parts[2] in ("checkpoints", "ledger") else ""


def damage(world: World, seed: int, count: int) -> Counter[str]:
    """So many damages, each to a fresh copy of the same storage; what was harmless once is not tried again."""
    origin = world.folder.with_name("origin")
    world.feed()
    shutil.copytree(world.folder, origin)
    found: Counter[str] = Counter()
    harmless: set[str] = set()
    for number in range(count):
        chance = random.Random(f"{seed}-{number}")
        shutil.rmtree(world.folder)
        shutil.copytree(origin, world.folder)
        file = chance.choice(damageable(world.folder))
        how = chance.choice(DAMAGES)
        what = f"{how.__name__} {file.relative_to(world.folder)}"
        if what in harmless:
            found["harmless before"] += 1
            continue
        how(file, chance)
        try:
            ended = outcome(world, file, sink_of(file, world.folder), origin)
        except BaseException as error:
            raise AssertionError(f"damage {seed}-{number}: {what}: {type(error).__name__}: {error}") from error
        print(f"damage {seed}-{number}: {what}: {ended}", flush=True)
        found[ended] += 1
        if ended == "harmless":
            harmless.add(what)
    return found


@pytest.mark.faults
def test_no_damage_is_silent(world: World):
    print(damage(world, 11, 200))


@pytest.mark.soak
def test_no_damage_is_silent_for_long(world: World, seed: int):
    print(damage(world, seed, 800))
