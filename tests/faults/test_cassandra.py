"""What Cassandra can do to a pipeline: be killed, stand still, and lose a column that is written to."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from pathlib import Path

import pytest
from cassandra import OperationTimedOut
from cassandra.cluster import NoHostAvailable
from tests.faults.world import World, is_up, pid
from tests.services.command import penstock, started, until
from tests.services.fixtures import Store

from penstock.services import Cassandra

SERVED = """
    name: copy
    restart: {{limit: 1000, backoff: 100 milliseconds, most: 1 second}}
    spark: {{spark.driver.memory: 1g}}
    sources:
      ids:
        kafka: {{servers: "{servers}", topics: [{source}], start: earliest, records_per_trigger: {most}}}
        value: string
    steps: {{rows: "SELECT value, length(value) AS size FROM ids"}}
    sinks:
      out:
        from: rows
        to:
          - cassandra: {{hosts: "{more}", table: TABLE, create: {{key: [value]}}}}
          - files: {{path: out, format: parquet}}
          - kafka: {{servers: "{servers}", topic: {target}, value_column: value}}
"""


@pytest.mark.faults
def test_cassandra_is_killed_stands_still_and_comes_back_and_a_dropped_column_stops_the_pipeline(
    world: World, cassandra: Store, cassandra_node: Cassandra, tmp_path: Path
):
    text = SERVED.replace("TABLE", f"{cassandra.keyspace}.t")
    world.write(text, most=200, more=cassandra.address)
    world.feed(2000)

    with started("run", "copy.yaml", folder=tmp_path) as run:
        until(lambda: world.commits() > 1 or run.process.poll() is not None, f"batches\n{run.said}")
        os.kill(pid(cassandra_node), signal.SIGKILL)
        until(lambda: cassandra_node.status().state != "running", "Cassandra's end")
        until(lambda: is_up(cassandra_node), "Cassandra on its old port")
        world.feed(1000)
        until(lambda: world.has_all() or run.process.poll() is not None, f"the ids after the kill\n{run.said}")

        os.kill(pid(cassandra_node), signal.SIGSTOP)
        try:
            world.feed(1000)
            # How long it stands still, not what we wait for.
            threading.Event().wait(15)
        finally:
            os.kill(pid(cassandra_node), signal.SIGCONT)
        until(lambda: has_all(cassandra, world) or run.process.poll() is not None, f"the ids\n{run.said}")
        assert run.process.poll() is None, run.said
        restarts = len(world.events("restarting"))

        cassandra.session.execute(f"ALTER TABLE {cassandra.keyspace}.t DROP size")
        world.feed(200)
        until(lambda: run.process.poll() is not None, f"the end\n{run.said}")

        assert run.process.returncode == 1
        assert "'size' is not a column of the table" in run.said
        assert len(world.events("restarting")) <= restarts + 1
        assert "Traceback" not in run.said
    cassandra.session.execute(f"ALTER TABLE {cassandra.keyspace}.t ADD size int")
    again = penstock("run", "copy.yaml", "--once", folder=tmp_path)

    assert again.returncode == 0, again.stderr
    assert has_all(cassandra, world)
    # The topic is at-least-once: what was under way at each of the three faults may be there again.
    world.judge(repeated=200 * (3 + len(world.events("query_restarting")) + len(world.events("restarting"))))


def has_all(cassandra: Store, world: World) -> bool:
    """Whether the table has every id that was sent, and no other; it may have a batch later than the folder."""
    try:
        found = Counter(row[0] for row in cassandra.cql("SELECT value FROM t "))
    except (NoHostAvailable, OperationTimedOut):
        # Our own session has not noticed yet that it is back.
        return False
    return found == Counter(world.sent) and world.has_all()
