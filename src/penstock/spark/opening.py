"""The session that a pipeline asks for, with the jars that its connectors need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock import jars
from penstock.model import Pipeline
from penstock.spark.session import cores, session
from penstock.storage.layout import Storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ALL_CORES = "local[*]"


def open_session(pipeline: Pipeline, *, verbose: bool, keep: Sequence[int] = ()) -> SparkSession:
    """A session with the file's settings; its JVM holds the files `keep` open for as long as it lives."""
    ours = {} if "master" in pipeline.spark else _on_this_machine(pipeline)
    asked = {**ours, **pipeline.session_settings}
    return session(
        pipeline.name,
        master=asked.get("master", _ALL_CORES),
        asked=asked,
        jars=jars.paths(pipeline.jar_groups),
        log=Storage.of(pipeline).logs / "driver.log",
        verbose=verbose,
        keep=keep,
    )


def _on_this_machine(pipeline: Pipeline) -> dict[str, str]:
    """Targets that are written side by side wait for disks, Python and each other: twice as many tasks as cores."""
    if all(len(sink.targets) == 1 for sink in pipeline.sinks):
        return {}
    count = cores(_ALL_CORES)
    return {"master": f"local[{2 * count}]", "spark.sql.shuffle.partitions": str(count)}
