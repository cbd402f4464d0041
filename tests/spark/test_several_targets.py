"""`to:` with several targets: one read, each target once per batch, also when a batch is replayed."""

from __future__ import annotations

import json
import shutil
import uuid
from pathlib import Path

import pytest
from tests.failing_sink import FailOnce, with_hook

from penstock.engine import start
from penstock.errors import PenstockError

PIPELINE = """
name: several
sources:
  numbers:
    files: {path: in, format: json, schema: n int, files_per_trigger: 1}
sinks:
  out:
    from: numbers
    to:
      - files: {path: everything, format: json}
        name: everything
      - files: {path: even, format: json}
        name: even
        select: n * 10 AS tens
        where: n % 2 = 0
"""

OWN = """
from pathlib import Path

def keep(rows, number):
    found = sorted(row.n for row in rows.collect())
    with open("{calls}", "a") as file:
        file.write(f"{{number}}: {{found}}\\n")
    if Path("{broken}").exists():
        raise OSError("the disk is full")

class Writer:
    def open(self, partition, batch):
        self.file = open("{rows}", "a")
        return True
    def process(self, row):
        self.file.write(f"{{row.n}}\\n")
    def close(self, error):
        self.file.close()
"""


def numbers(folder: Path, column: str = "n") -> list[int]:
    """Every number in the published files of a folder, read without Spark; what is in the making is not there yet."""
    files = folder.glob("batch=*/*.json")
    return sorted(json.loads(line)[column] for file in files for line in file.read_text().splitlines())


@pytest.fixture
def folder(project):
    for number in range(2):
        project.put(f"in/{number}.json", "".join(f'{{"n": {number * 10 + each}}}\n' for each in range(4)))
    return project.folder


@pytest.fixture
def own(project) -> str:
    """A module of a name of its own: the session has those of other tests."""
    places = {name: str(project.folder / name) for name in ("calls", "broken", "rows")}
    name = f"own_{uuid.uuid4().hex[:8]}"
    project.put(f"{name}.py", OWN.format(**places))
    return name


def test_one_read_feeds_every_target_its_part(project, folder):
    run = project.run(PIPELINE)

    assert [batch.rows_in for batch in run.batches] == [4, 4]
    assert numbers(folder / "everything") == [0, 1, 2, 3, 10, 11, 12, 13]
    assert numbers(folder / "even", "tens") == [0, 20, 100, 120]
    assert len(list((folder / "even").glob("batch=*"))) == 2
    # Any reader of the folder sees each row once.
    read = project.spark.read.schema("n int, batch string").json(str(folder / "everything"))
    assert read.count() == 8
    assert read.select("batch").distinct().count() == 2


def test_a_target_can_get_the_sums_of_each_batch(project, folder):
    sums = "select: n % 2 AS odd, sum(n) AS total\n        group_by: n % 2"
    project.run(PIPELINE.replace("select: n * 10 AS tens\n        where: n % 2 = 0", sums))

    assert numbers(folder / "even", "total") == [2, 4, 22, 24]


@pytest.mark.parametrize("moment", ["before", "written"])
@pytest.mark.parametrize("which", ["everything", "even"])
def test_a_batch_that_is_replayed_is_written_once(project, folder, which, moment):
    """The second batch fails before or after the write of one of its targets; the ledger has the other one."""
    failure = FailOnce(batch=1, moment=moment)
    pipeline = with_hook(project.load(PIPELINE), which, failure)
    with pytest.raises(PenstockError, match="a crash"):
        project.run_once(pipeline)
    assert failure.failed

    project.run_once(pipeline)

    assert numbers(folder / "everything") == [0, 1, 2, 3, 10, 11, 12, 13]
    assert numbers(folder / "even", "tens") == [0, 20, 100, 120]


def test_the_cached_batch_is_released_even_when_it_fails(project, folder):
    pipeline = with_hook(project.load(PIPELINE), "even", FailOnce(batch=0, moment="before"))
    before = project.spark.sparkContext._jsc.getPersistentRDDs().size()
    with pytest.raises(PenstockError):
        project.run_once(pipeline)

    assert project.spark.sparkContext._jsc.getPersistentRDDs().size() == before


def test_a_new_checkpoint_is_another_writer(project, folder):
    """Batch numbers begin again with it: they must not be taken for those that are written."""
    pipeline = project.load(PIPELINE)
    project.run_once(pipeline)
    shutil.rmtree(folder / ".penstock" / "several" / "checkpoints")
    project.run_once(pipeline)

    assert len(numbers(folder / "everything")) == 16


OPTIONAL = """
name: several
sources:
  numbers: {files: {path: in, format: json, schema: n int}}
sinks:
  out:
    from: numbers
    to:
      - files: {path: everything, format: json}
      - TARGET
        optional: OPTIONAL
"""


def optional(own: str, *, yes: bool = False, kind: str = "foreach_batch", name: str = "keep") -> str:
    target = f'{kind}: {{python: "{own}:{name}"}}'
    return OPTIONAL.replace("TARGET", target).replace("OPTIONAL", str(yes).lower())


def test_a_function_of_ones_own_gets_the_batch_and_its_number(project, folder, own):
    project.run(optional(own))

    assert (folder / "calls").read_text() == "0: [0, 1, 2, 3, 10, 11, 12, 13]\n"


def test_a_failing_target_fails_the_pipeline_and_the_others_are_not_written_again(project, folder, own):
    project.put("broken", "")
    pipeline = project.load(optional(own))
    with pytest.raises(PenstockError, match="sink 'out': OSError: the disk is full"):
        project.run_once(pipeline)
    written = {file: file.stat().st_mtime_ns for file in (folder / "everything").rglob("*")}

    (folder / "broken").unlink()
    project.run_once(pipeline)

    assert {file: file.stat().st_mtime_ns for file in (folder / "everything").rglob("*")} == written
    assert len((folder / "calls").read_text().splitlines()) == 2


def test_an_optional_target_that_fails_is_told_and_the_pipeline_goes_on(project, folder, own):
    project.put("broken", "")
    told = []
    queries = start(
        project.load(optional(own, yes=True)),
        project.spark,
        once=True,
        emit=lambda what, **facts: told.append((what, facts)),
    )
    next(iter(queries)).awaitTermination()

    assert next(iter(queries)).exception() is None
    assert len(numbers(folder / "everything")) == 8
    ((what, facts),) = told
    assert (what, facts["target"], facts["batch"], facts["rows"]) == ("missed", "foreach_batch", 0, 8)
    assert facts["reason"] == "the disk is full"


def test_a_class_of_ones_own_gets_every_row(project, folder, own):
    project.run(optional(own, kind="foreach", name="Writer"))

    assert len((folder / "rows").read_text().split()) == 8


def test_a_class_without_process_is_refused_before_the_first_batch(project, folder, own, refusal):
    said = refusal(project.run, optional(own, kind="foreach"), checked=False)

    assert f"sink 'out': {own}:keep has no method 'process'; it is called with every row" in said
