"""A clock that is set while a pipeline runs: every command still knows that it is alive."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.services.command import penstock, started, until

#: The clock of every Python process that has this: ahead by the hours that a file says, at any time.
CLOCK = """
import datetime, pathlib, time

_file, _time, _datetime = pathlib.Path({file!r}), time.time, datetime.datetime


def _ahead():
    return float(_file.read_text() or 0) * 3600


class Clock(_datetime):
    @classmethod
    def now(cls, zone=None):
        return cls.fromtimestamp(_time() + _ahead(), zone)


time.time = lambda: _time() + _ahead()
datetime.datetime = Clock
"""

PIPELINE = """
name: ticks
storage: {storage}
sources:
  ticks: {{rate: {{rows_per_second: 5}}}}
sinks:
  out:
    from: ticks
    trigger: 500 milliseconds
    to:
      - files: {{path: out, format: parquet}}
"""


@pytest.mark.parametrize(("storage", "hours"), [(".penstock", -3), ("file://{folder}/storage", 3)])
def test_a_pipeline_whose_clock_was_set_is_running_and_can_be_stopped(tmp_path: Path, storage: str, hours: int):
    root = tmp_path / ("storage" if "file" in storage else storage)
    (tmp_path / "ticks.yaml").write_text(PIPELINE.format(storage=storage.format(folder=tmp_path)))
    clock, site = tmp_path / "hours", tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(CLOCK.format(file=str(clock)))
    path = os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])
    clock.write_text(str(hours))

    def states() -> list[str]:
        """By a command with the clock of the pipeline, and by one with the right clock."""
        found = [penstock("status", "--storage", root, folder=tmp_path, PYTHONPATH=each) for each in (path, "")]
        return [each.stdout.split()[1] for each in found]

    with started("run", "ticks.yaml", folder=tmp_path, PYTHONPATH=path) as run:
        commits = root / "ticks" / "checkpoints" / "out" / "commits"
        until(lambda: (commits / "2").exists() or run.process.poll() is not None, f"batches\n{run.said}")
        assert states() == ["running", "running"], "it began with another clock"

        for step in ("0", str(-hours)):
            clock.write_text(step)
            assert states() == ["running", "running"], f"its clock was set to {step} hours"
            refused = penstock("run", "ticks.yaml", folder=tmp_path)
            assert (refused.returncode, "is held by" in refused.stderr) == (1, True), refused.stderr
        stopped = penstock("stop", "ticks.yaml", folder=tmp_path)

        assert (stopped.returncode, stopped.stdout) == (0, "ticks has stopped\n"), stopped.stderr
        assert run.process.wait(60) == 0, run.said
    assert "gone" not in states()
