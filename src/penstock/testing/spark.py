"""The one Spark session of a run of tests."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.options import SinkOptions, SourceOptions

_QUICK = {
    # The optimizing compiler does not pay for itself in a run of a minute.
    # Without a size of its own the cache for code is small, and once it is full everything is interpreted.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m",
    "spark.sql.shuffle.partitions": "1",
    "spark.driver.memory": "1g",
}


@contextmanager
def quick_session(groups: Iterable[str]) -> Iterator[SparkSession]:
    """A session made for many short queries, with the jars of some groups; one that is there already is used as is."""
    from penstock import jars
    from penstock.engine import session
    from penstock.java import java

    groups = list(dict.fromkeys(groups))
    paths = jars.paths(groups)
    java()
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
    """What the session must have from its start for the connectors of these groups of jars."""
    there = set(groups)
    kinds = [kind for kind in _kinds() if kind.jars and there.issuperset(kind.jars)]
    return {key: value for kind in kinds for key, value in kind.session.items()}


def groups_at_hand() -> list[str]:
    """The groups of jars that connectors can need and that are on this machine."""
    from penstock import jars

    known = [group for kind in _kinds() for group in kind.jars]
    return [group for group in dict.fromkeys([*known, "avro"]) if not jars.problems([group])]


def _kinds() -> list[type[SourceOptions | SinkOptions]]:
    from penstock.connectors import SINKS, SOURCES

    return [*SOURCES.values(), *SINKS.values()]
