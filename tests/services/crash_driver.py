"""A driver that dies: `python -m tests.services.crash_driver PIPELINE TARGET MOMENT SEED`, started in its own session.

MOMENT is before | inside | written | noted, of the first write to TARGET in this run; `never` runs until all is read.
Dying takes the whole session along, the JVM and Python workers included, as a power cut does.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
from pathlib import Path

from tests.failing_sink import Hook, with_hook

from penstock import jars
from penstock.connector import Batch
from penstock.engine import prepare, session, start
from penstock.load import load
from penstock.storage.ledger import Ledger


def die() -> None:
    """Now, and all of it."""
    os.killpg(os.getpgid(0), signal.SIGKILL)


def deadly(moment: str, chance: random.Random) -> Hook:
    """A hook that the driver does not survive."""

    def hook(now: str, _batch: Batch) -> None:
        if now == moment:
            die()
        if moment == "inside" and now == "before":
            threading.Timer(chance.uniform(0.0, 0.5), die).start()

    return hook


def main(file: str, target: str, moment: str, seed: str) -> None:
    """Run the pipeline until it has read what is there, or dies."""
    chance = random.Random(seed)
    pipeline = prepare(load(file), lambda _: None)
    if moment in ("before", "inside", "written"):
        pipeline = with_hook(pipeline, target, deadly(moment, chance))
    if moment == "noted":
        noted = Ledger.write

        def write(self: Ledger, name: str, query: str, batch: int) -> None:
            noted(self, name, query, batch)
            if name == target:
                die()

        Ledger.write = write  # type: ignore[method-assign]
    log = Path(pipeline.folder, "driver.log")
    spark = session("crash", asked=pipeline.session_settings, jars=jars.paths(pipeline.jar_groups), log=log)
    if moment == "anywhere":
        threading.Timer(chance.uniform(0.0, 6.0), die).start()
    start(pipeline, spark, once=moment == "never").wait()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
