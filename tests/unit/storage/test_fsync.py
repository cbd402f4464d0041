"""fsync of what other programs have written: which files and folders it reaches."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.storage import files


@pytest.fixture
def synced(monkeypatch) -> set[Path]:
    """The files and folders that were synced."""
    found: set[Path] = set()
    real = os.fsync

    def fsync(handle: int) -> None:
        found.add(Path(f"/proc/self/fd/{handle}").readlink())
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    return found


def test_a_tree_is_synced_with_every_folder(tmp_path, synced):
    file = tmp_path / "a" / "b" / "c.parquet"
    file.parent.mkdir(parents=True)
    file.write_text("rows")

    files.fsync_tree(tmp_path / "a")

    assert synced == {tmp_path / "a", tmp_path / "a" / "b", file}


def test_the_folders_above_are_synced_up_to_the_mount_point(tmp_path, synced):
    files.fsync_parents(tmp_path)

    above = [tmp_path, *tmp_path.parents]
    mount = next(number for number, each in enumerate(above) if each.is_mount())
    assert synced == set(above[: mount + 1])


@pytest.mark.parametrize(("prefix", "is_local"), [("", True), ("file:", True), ("file://", True), ("s3a://b", False)])
def test_only_a_path_of_this_machine_is_synced(tmp_path, prefix, is_local):
    assert files.local_path(f"{prefix}{tmp_path}") == (tmp_path if is_local else None)


def test_a_path_that_is_not_there_is_elsewhere(tmp_path):
    assert files.local_path(str(tmp_path / "hdfs")) is None
