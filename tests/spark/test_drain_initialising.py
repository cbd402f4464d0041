"""A drain that meets a query before its first batch: no batch begins."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader
from pyspark.sql.streaming.query import StreamingQuery
from tests.services.command import until

from penstock.engine.queries import drain
from penstock.spark import internals

_PATIENCE_SECONDS = 60.0


class GatedSource(DataSource):
    """A source that is being initialised until a file is there, and then has a row for every batch."""

    @classmethod
    def name(cls) -> str:
        return "gated"

    def schema(self) -> str:
        return "value int"

    def simpleStreamReader(self, schema: Any) -> SimpleDataSourceStreamReader:  # noqa: N802, ARG002
        gate = Path(self.options["gate"])
        gate.with_name("waiting").touch()
        while not gate.exists():
            time.sleep(0.01)
        return GatedReader()


class GatedReader(SimpleDataSourceStreamReader):
    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"row": 0}

    def read(self, start: dict[str, int]) -> tuple[Iterator[tuple[int]], dict[str, int]]:
        return iter([(start["row"],)]), {"row": start["row"] + 1}

    def readBetweenOffsets(self, start: dict[str, int], end: dict[str, int]) -> Iterator[tuple[int]]:  # noqa: N802
        return iter([(row,) for row in range(start["row"], end["row"])])


@contextmanager
def initialising(spark, folder: Path, batches: list[int]) -> Iterator[StreamingQuery]:
    """A query whose source is not there yet."""
    spark.dataSource.register(GatedSource)
    rows = spark.readStream.format("gated").option("gate", str(folder / "gate")).load()
    writer = rows.writeStream.foreachBatch(lambda _rows, number: batches.append(number))
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
    try:
        until((folder / "waiting").exists, "the source")
        yield query
    finally:
        (folder / "gate").touch()
        query.stop()


def test_a_query_that_is_initialising_begins_no_batch_once_it_is_forbidden(spark, tmp_path: Path):
    batches: list[int] = []
    with initialising(spark, tmp_path, batches) as query:
        internals.forbid_next_batch(spark, query)
        (tmp_path / "gate").touch()

        assert query.awaitTermination(_PATIENCE_SECONDS)
        assert query.exception() is None
    assert batches == []
    assert not list((tmp_path / "checkpoint" / "offsets").glob("[0-9]*"))


@pytest.mark.parametrize("seconds", [0.0, 0.3])
def test_a_drain_of_a_query_that_is_initialising_ends_it_without_a_batch(spark, tmp_path: Path, seconds: float):
    batches: list[int] = []
    with initialising(spark, tmp_path, batches) as query:
        opening = threading.Timer(seconds, (tmp_path / "gate").touch)
        opening.start()

        assert drain(spark, [query], _PATIENCE_SECONDS) == []

        opening.join()
        assert not internals.is_thread_alive(query)
    assert batches == []
