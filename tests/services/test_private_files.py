"""What a run leaves on the disk while it works, and after it was killed."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.services.command import started, until

from penstock.spark.session import remove_leftovers

FILE = """
name: counts
sources: {ticks: {rate: {rows_per_second: 20}}}
steps: {totals: "SELECT value % 10 AS digit, count(*) AS n FROM ticks GROUP BY value % 10"}
sinks: {out: {from: totals, console: {}, mode: complete}}
"""


def test_nobody_else_can_read_the_temporary_files_or_the_storage_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    temporary = tmp_path / "temporary"
    temporary.mkdir(mode=0o755)
    (tmp_path / "counts.yaml").write_text(FILE)
    monkeypatch.setattr("tempfile.tempdir", str(temporary))

    with started("run", "counts.yaml", folder=tmp_path, TMPDIR=str(temporary)) as running:
        until(lambda: "out: batch" in running.said or running.process.poll() is not None, "a batch")
        assert running.process.poll() is None, running.said

        assert [each.name for each in temporary.glob("penstock-spark-*/blockmgr-*/*/*.data")] != []
        tops = [*temporary.iterdir(), tmp_path / ".penstock"]
        assert [each for each in tops if each.stat().st_mode & 0o077] == []
    assert [*temporary.glob("penstock-spark-*")] != []

    def is_clean() -> bool:
        remove_leftovers()
        return not [*temporary.glob("penstock-spark-*")]

    until(is_clean, "the killed processes to be gone, and their folder with them")
