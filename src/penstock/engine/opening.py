"""The session that a pipeline asks for, with the jars that its connectors need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock import jars
from penstock.engine.spark import session
from penstock.engine.storage import Storage
from penstock.model import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def open_session(pipeline: Pipeline, *, verbose: bool, keep: Sequence[int] = ()) -> SparkSession:
    """A session with the file's settings; its JVM holds the files `keep` open for as long as it lives."""
    return session(
        pipeline.name,
        master=pipeline.spark.get("master", "local[*]"),
        asked=pipeline.session_settings,
        jars=jars.paths(pipeline.jar_groups),
        log=Storage.of(pipeline).logs / "driver.log",
        verbose=verbose,
        keep=keep,
    )
