"""The shared Spark session of a test run."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.connector import SinkOptions, SourceOptions

_QUICK = {
    # C1 only: the optimizing compiler does not pay off in a minute. That shrinks the default code cache, and once it
    # is full everything is interpreted; hence its explicit size.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m",
    "spark.sql.shuffle.partitions": "1",
    "spark.driver.memory": "1g",
}


@contextmanager
def quick_session(groups: Iterable[str]) -> Iterator[SparkSession]:
    """A session for many short queries, with the jars of these groups; an active session is reused as it is."""
    from penstock import jars
    from penstock.engine import session
    from penstock.java import find_java

    groups = list(dict.fromkeys(groups))
    paths = jars.paths(groups)
    find_java()
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        yield active
        return
    with tempfile.TemporaryDirectory(prefix="penstock-test-") as folder:
        log = Path(folder, "driver.log")
        spark = session("penstock test", master="local[2]", asked=_QUICK | settings_of(groups), jars=paths, log=log)
        try:
            yield spark
        finally:
            spark.stop()


def settings_of(groups: Iterable[str]) -> dict[str, str]:
    """The session settings that the connectors of these groups of jars need."""
    there = set(groups)
    kinds = [kind for kind in _kinds() if kind.jars and there.issuperset(kind.jars)]
    return {key: value for kind in kinds for key, value in kind.session.items()}


def groups_at_hand() -> list[str]:
    """The groups of jars that connectors use and that are on this machine."""
    from penstock import jars

    known = [group for kind in _kinds() for group in kind.jars]
    return [group for group in dict.fromkeys([*known, "avro"]) if not jars.find_problems([group])]


def _kinds() -> list[type[SourceOptions | SinkOptions]]:
    from penstock.connectors import SINKS, SOURCES

    return [*SOURCES.values(), *SINKS.values()]
