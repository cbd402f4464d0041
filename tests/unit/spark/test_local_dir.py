"""The folder for Spark's temporary files: private, and gone with its process."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.spark.session import remove_leftovers

MAKE = """
import sys
from penstock.spark.session import local_dir
print(local_dir(), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def owner(folder: Path) -> subprocess.Popen[str]:
    """A process that has made a folder and waits."""
    return subprocess.Popen(
        [sys.executable, "-c", MAKE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(folder)},
    )


def test_the_folder_is_private_and_is_removed_when_its_process_ends(temporary: Path):
    with owner(temporary) as process:
        assert process.stdout is not None
        made = Path(process.stdout.readline().strip())
        (made / "blocks").mkdir()

        assert made.parent == temporary
        assert stat.S_IMODE(made.stat().st_mode) == 0o700
        remove_leftovers()
        assert made.exists()

        process.communicate()
    assert not made.exists()


def test_the_folder_of_a_killed_process_is_removed_by_the_next(temporary: Path):
    with owner(temporary) as process:
        assert process.stdout is not None
        made = Path(process.stdout.readline().strip())
        process.kill()
    assert made.exists()

    with owner(temporary) as following:
        assert following.stdout is not None
        other = Path(following.stdout.readline().strip())

        assert not made.exists()
        assert other.exists()


def test_a_link_in_the_temporary_folder_is_not_followed(temporary: Path):
    target = temporary / "other"
    target.mkdir()
    (temporary / "penstock-spark-x").symlink_to(target)

    remove_leftovers()

    assert target.exists()
