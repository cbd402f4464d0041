"""What `penstock run` rejects before Spark starts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_a_run_with_a_storage_that_others_can_write_to_is_refused(tmp_path: Path):
    file = tmp_path / "p.yaml"
    file.write_text("name: p\nstorage: kept\nsources: {ticks: {rate: {}}}\nsinks: {out: {from: ticks, console: {}}}\n")
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept").chmod(0o777)

    command = [sys.executable, "-m", "penstock", "run", "p.yaml"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert ran.returncode == 1
    assert ran.stderr == (
        f"p.yaml:2:1: the storage {tmp_path}/kept can be changed by other users: everyone can (mode 777), "
        "and a checkpoint decides what is read and which classes are loaded; "
        f"run chmod go-w {tmp_path}/kept, or set 'storage' to a folder of your own\n"
    )
