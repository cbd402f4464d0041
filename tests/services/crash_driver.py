"""A driver that dies: `python driver.py PIPELINE TARGET MOMENT SEED`, started in a session of its own.

MOMENT is before | inside | written | noted, of the first write to TARGET in this run; `never` runs until all is read.
Dying takes the whole session along, the JVM and Python workers included, as a power cut does.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from penstock import jars
from penstock.engine import prepare, session, start, wait
from penstock.load import load
from penstock.options import SinkOptions
from penstock.storage.ledger import Ledger


def die() -> None:
    """Now, and all of it."""
    os.killpg(os.getpgid(0), signal.SIGKILL)


def doomed(write_batch: Callable[..., None], moment: str, chance: random.Random) -> Callable[..., None]:
    """A write that does not survive."""

    def dying(self: SinkOptions, rows: object, batch: object) -> None:
        if moment == "before":
            die()
        if moment == "inside":
            threading.Timer(chance.uniform(0.0, 0.5), die).start()
        write_batch(self, rows, batch)
        if moment == "written":
            die()

    return dying


def main(file: str, target: str, moment: str, seed: str) -> None:
    """Run the pipeline until it has read what is there, or dies."""
    chance = random.Random(seed)
    pipeline = prepare(load(file), lambda _: None)
    for sink in pipeline.sinks:
        for each in sink.targets:
            if each.name == target and moment in ("before", "inside", "written"):
                kind = type(each.connector)
                kind.write_batch = doomed(kind.write_batch, moment, chance)  # type: ignore[method-assign]
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
    wait(pipeline, start(pipeline, spark, once=moment == "never"), threading.Event())
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
