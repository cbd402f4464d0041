"""What Cassandra can do to a pipeline: be killed, stand still, and lose a column that is written to."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from cassandra import OperationTimedOut
from cassandra.cluster import NoHostAvailable
from deltalake import DeltaTable
from tests.faults.world import World, is_up, pid
from tests.services.command import started, until
from tests.services.fixtures import Store, fresh_keyspace

from penstock import cql, jars
from penstock.services import Cassandra
from penstock.services.service import free_port

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SERVED = """
    name: copy
    restart: {{limit: 1000, backoff: 100 milliseconds, most: 1 second}}
    spark: {{spark.driver.memory: 1g, spark.databricks.delta.snapshotPartitions: 1}}
    sources:
      ids:
        kafka: {{servers: "{servers}", topics: [{source}], start: earliest, records_per_trigger: {most}}}
        value: string
    steps: {{rows: "SELECT value, length(value) AS size FROM ids"}}
    sinks:
      out:
        from: rows
        to:
          - delta: {{path: lake}}
          - cassandra: {{hosts: "{more}", table: TABLE, create: {{key: [value]}}}}
          - files: {{path: out, format: parquet}}
          - kafka: {{servers: "{servers}", topic: {target}, value_column: value, delivery: exactly-once}}
"""


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Cassandra]:
    """A node that a test may kill."""
    node = Cassandra(tmp_path / "cassandra", jars.fetch([Cassandra.jars]), free_port())
    node.start(lambda _: None)
    yield node
    node.stop()


@pytest.fixture
def store(own: Cassandra) -> Iterator[Store]:
    """A keyspace of that node."""
    address = str(own.status().address)
    session = cql.connect(address)
    yield fresh_keyspace(address, session)
    session.cluster.shutdown()


@pytest.mark.faults
def test_cassandra_is_killed_stands_still_and_comes_back_and_a_dropped_column_stops_the_pipeline(
    world: World, store: Store, own: Cassandra, tmp_path: Path, spark: SparkSession
):
    text = SERVED.replace("TABLE", f"{store.keyspace}.t")
    world.write(text, most=200, more=store.address)
    world.feed(1000)

    with started("run", "copy.yaml", folder=tmp_path) as run:
        until(lambda: world.commits() > 1 or run.process.poll() is not None, f"batches\n{run.said}")
        os.kill(pid(own), signal.SIGKILL)
        until(lambda: own.status().state != "running", "Cassandra's end")
        until(lambda: is_up(own), "Cassandra on its old port")
        until(lambda: has_all(store, world) or run.process.poll() is not None, f"the ids after the kill\n{run.said}")
        assert run.process.poll() is None, run.said
        assert world.events("restarting") == world.events("query_restarting") == [], "the write waits for it"

        stalls = len(world.events("stalled"))
        os.kill(pid(own), signal.SIGSTOP)
        try:
            world.feed(400)
            until(
                lambda: len(world.events("stalled")) > stalls or run.process.poll() is not None,
                f"the word that it is stalled\n{run.said}",
            )
        finally:
            os.kill(pid(own), signal.SIGCONT)
        until(lambda: has_all(store, world) or run.process.poll() is not None, f"the ids\n{run.said}")
        assert run.process.poll() is None, run.said
        restarts = len(world.events("restarting"))

        store.session.execute(f"ALTER TABLE {store.keyspace}.t DROP size")
        world.feed(200)
        until(lambda: run.process.poll() is not None, f"the end\n{run.said}")

        assert run.process.returncode == 1
        assert "'size' is not a column of the table" in run.said
        assert len(world.events("restarting")) <= restarts + 1
        assert "Traceback" not in run.said
    store.session.execute(f"ALTER TABLE {store.keyspace}.t ADD size int")
    world.resume(spark)

    assert has_all(store, world)
    world.judge()
    assert Counter(DeltaTable(tmp_path / "lake").to_pyarrow_table()["value"].to_pylist()) == Counter(world.sent)


def has_all(store: Store, world: World) -> bool:
    """Whether the table has every id that was sent, and no other; it may have a batch later than the folder."""
    try:
        found = Counter(row[0] for row in store.cql("SELECT value FROM t "))
    except (NoHostAvailable, OperationTimedOut):
        # Our own session has not noticed yet that it is back.
        return False
    return found == Counter(world.sent) and world.has_all()
