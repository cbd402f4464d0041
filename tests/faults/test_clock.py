"""The clock jumps: Spark computes the next trigger from it, and would sleep until it is as late again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.faults.world import COPY, World
from tests.services.command import penstock, started, until

#: Three hours back as soon as a file is there. Spark's own clock stays, so what is shown is that the jump is noticed,
#: that the query begins anew between two batches, and that nothing is lost or repeated by it.
CLOCK = """
import pathlib, time

_mark, _time = pathlib.Path({mark!r}), time.time
time.time = lambda: _time() - (10_800 if _mark.exists() else 0)
"""


@pytest.mark.faults
def test_a_clock_that_is_set_back_starts_timed_queries_anew_and_nothing_is_repeated(world: World, tmp_path: Path):
    mark = tmp_path / "set-back"
    (tmp_path / "sitecustomize.py").write_text(CLOCK.format(mark=str(mark)))
    world.write(COPY.replace("        to:", "        trigger: 200 milliseconds\n        to:"), most=200)
    world.feed(1000)
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])

    with started("run", "copy.yaml", folder=tmp_path, PYTHONPATH=path) as run:
        until(lambda: world.commits() > 1 or run.process.poll() is not None, f"batches\n{run.said}")
        mark.touch()
        until(lambda: bool(world.events("clock_set_back")) or run.process.poll() is not None, f"the jump\n{run.said}")
        world.feed(1000)
        until(lambda: world.has_all() or run.process.poll() is not None, f"all ids\n{run.said}")
        run.process.terminate()
        assert run.process.wait(120) == 0, run.said

    (event,) = world.events("clock_set_back")
    assert (event["seconds"], event["sinks"]) == (10_800, ["out"])
    assert world.events("restarting") == world.events("query_restarting") == []
    assert "set back by 10,800 s" in penstock("history", "copy", folder=tmp_path).stdout
    world.judge()
