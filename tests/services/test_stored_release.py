"""A storage that an earlier release has written: this one continues from it, and loses and repeats nothing."""

from __future__ import annotations

import json
import sqlite3
import tarfile
from pathlib import Path

import pytest
from tests.services.command import penstock

STORED = Path(__file__).parent / "stored"


def values(folder: Path) -> list[int]:
    lines = (line for file in folder.glob("batch=*/*.json") for line in file.read_text().splitlines())
    return sorted(json.loads(line)["value"] for line in lines)


def counted(folder: Path) -> int:
    with sqlite3.connect(folder / "board.db") as database:
        return int(database.execute("SELECT sum(n) FROM counts").fetchone()[0])


def last_batch(folder: Path, sink: str) -> int:
    return max(int(path.stem) for path in (folder / ".penstock/ticks/ledger" / sink / "batches").glob("*.json"))


@pytest.mark.parametrize("release", ["0.1"])
def test_the_storage_of_an_earlier_release_is_continued(tmp_path: Path, release: str):
    with tarfile.open(STORED / f"ticks-{release}.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    before = {"all": values(tmp_path / "all"), "counted": counted(tmp_path), "batch": last_batch(tmp_path, "archive")}

    verified = penstock("checkpoint", "verify", "ticks.yaml", folder=tmp_path)
    run = penstock("run", "ticks.yaml", "--once", folder=tmp_path)
    history = penstock("history", "ticks.yaml", folder=tmp_path)

    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert run.returncode == 0, run.stderr
    after = values(tmp_path / "all")
    assert last_batch(tmp_path, "archive") > before["batch"]
    assert after[: len(before["all"])] == before["all"]
    assert after == list(range(len(after))), "no row is lost and none is there twice"
    assert values(tmp_path / "even") == [value for value in after if value % 2 == 0]
    assert counted(tmp_path) > before["counted"]
    assert history.returncode == 0
    assert "queries started: board, archive" in history.stdout
