"""A batch of 1,000 logins joined with a table of 1,000,000 users in Cassandra: by a scan, and by a lookup."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock import cql, jars
from penstock.connector import LookupRequest
from penstock.connectors.cassandra import CassandraSource
from penstock.engine import session
from penstock.services import Cassandra
from penstock.services.service import free_port

USERS = int(os.environ.get("BENCH_USERS", "1000000"))
BATCH = 1000
ROUNDS = 5
_WANTED = 10
_LOADERS = 256
_WARM_UP = 2


def scan_against_lookup() -> list[str]:
    """Measure how much faster the lookup is; return missed goals."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        node = Cassandra(Path(folder) / "cassandra", jars.fetch([Cassandra.jars]), free_port())
        hosts = node.start(lambda _: None)
        try:
            _fill(hosts)
            return _measure(hosts, Path(folder))
        finally:
            node.stop()


def _fill(hosts: str) -> None:
    from cassandra.concurrent import execute_concurrent_with_args

    began = time.perf_counter()
    users = cql.connect(hosts)
    # Temporary data: no commit log needed.
    replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
    users.execute(f"CREATE KEYSPACE b WITH replication = {replication} AND durable_writes = false")
    users.execute("CREATE TABLE b.users (id text PRIMARY KEY, name text, city text)")
    insert = users.prepare("INSERT INTO b.users (id, name, city) VALUES (?, ?, ?)")
    rows = ((f"user-{number}", f"name of {number}", f"city {number % 977}") for number in range(USERS))
    for result in execute_concurrent_with_args(users, insert, rows, concurrency=_LOADERS, results_generator=True):
        assert result.success
    users.cluster.shutdown()
    print(f"lookup: {USERS:,} users written in {time.perf_counter() - began:.0f} s, by the driver")


def _measure(hosts: str, folder: Path) -> list[str]:
    spark = session("bench", master="local[2]", jars=jars.paths(["cassandra"]), log=folder / "driver.log")
    try:
        users = CassandraSource(hosts=hosts, table="b.users")
        scanned = users.read_static(spark)
        lookup = LookupRequest({"id": "id"}, {}, "inner")
        ways: dict[str, Callable[[Any], Any]] = {
            "scan": lambda batch: batch.join(scanned, "id"),
            "lookup": lambda batch: users.look_up(batch, lookup),
        }
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        # Warm-up rounds for the JVMs and sessions do not count: a stream runs for days.
        for number in range(-_WARM_UP, ROUNDS):
            for name, join in ways.items():
                batch = spark.range(BATCH).selectExpr(
                    f"concat('user-', (id * 7919 + {number + _WARM_UP}) % {USERS}) AS id"
                )
                rows = join(batch)
                began = time.perf_counter()
                assert len({row.name for row in rows.collect()}) == BATCH
                seconds[name] += [time.perf_counter() - began] if number >= 0 else []
    finally:
        spark.stop()
    return _verdict(seconds)


def _verdict(seconds: dict[str, list[float]]) -> list[str]:
    for name, each in seconds.items():
        print(f"  {name:<7} {statistics.median(each):>7.2f} s for a batch of {BATCH:,}")
    ratio = statistics.median(scan / lookup for scan, lookup in zip(seconds["scan"], seconds["lookup"], strict=True))
    print(f"  a lookup is {ratio:.0f} times faster than a scan (goal: {_WANTED})")
    return [] if ratio >= _WANTED else [f"a lookup is {ratio:.1f} times faster than a scan"]
