"""penstock dev with a real Cassandra."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.services.command import penstock, until

from penstock import cql, jars
from penstock.connector import Batch
from penstock.connectors.cassandra import CassandraSink
from penstock.engine.prepare import probe
from penstock.errors import PenstockError
from penstock.services import Cassandra
from penstock.services.service import free_port

_TABLE = "CREATE TABLE dev.t (id text PRIMARY KEY, n int)"
_KEYSPACE = "CREATE KEYSPACE dev WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"


@dataclass(frozen=True)
class Dev:
    """`penstock dev` in a folder of its own."""

    folder: Path

    def call(self, *words: str) -> Any:
        return penstock("dev", *words, folder=self.folder.parent, PENSTOCK_DEV=str(self.folder))

    def up(self, *words: str) -> str:
        done = self.call("up", "cassandra", *words)
        assert done.returncode == 0, done.stderr
        return str(done.stdout.strip())

    def status(self) -> dict[str, Any]:
        (found,) = json.loads(self.call("status", "cassandra", "--json").stdout)
        return dict(found)


@pytest.fixture
def dev(tmp_path):
    made = Dev(tmp_path / "dev")
    yield made
    Cassandra(made.folder / "cassandra").stop()


def ask(address: str, *texts: str) -> list[tuple[Any, ...]]:
    session = cql.connect(address)
    try:
        for text in texts:
            found = session.execute(text)
        return [tuple(row) for row in found]
    finally:
        session.cluster.shutdown()


def is_there(pid: int) -> bool:
    """Whether a process is there and not a zombie that nobody has collected yet."""
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def test_a_node_comes_up_is_killed_and_a_write_waits_until_it_is_back(dev, spark):
    address = dev.up("--port", str(free_port()))
    first = dev.status()
    assert (first["state"], first["address"]) == ("running", address)
    assert dev.up() == address
    assert dev.status() == first, "up again starts nothing"
    ask(address, _KEYSPACE, _TABLE)
    sink = CassandraSink(hosts=address, table="dev.t")
    rows = spark.createDataFrame([("a", 1), ("b", 2)], "id string, n int")
    sink_writer = sink.open(spark, rows.schema, "append")
    sink_writer.write(rows.limit(1), Batch(0, "query", "writer"))

    os.kill(first["pid"], signal.SIGKILL)
    until(lambda: not is_there(first["pid"]), "the end of the node")
    assert dev.call("status", "cassandra").stdout == (
        f"cassandra stale: pid {first['pid']} is gone; run `penstock dev up cassandra`\n"
    )
    writing = threading.Thread(target=sink_writer.write, args=(rows, Batch(1, "query", "writer")), daemon=True)
    writing.start()
    assert dev.up() == address, "the port is remembered"
    writing.join(90)

    assert not writing.is_alive()
    assert sorted(ask(address, "SELECT * FROM dev.t")) == [("a", 1), ("b", 2)]
    second = dev.status()
    assert dev.call("down", "cassandra").stdout == f"cassandra stopped (it ran on {address}, pid {second['pid']})\n"
    assert not is_there(second["pid"])
    assert dev.call("down", "cassandra").stdout == "cassandra was not running\n"


def test_a_chosen_port_that_is_taken_is_refused(dev):
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]

        refused = dev.call("up", "cassandra", "--port", str(taken))

    assert refused.returncode == 1
    assert refused.stderr == (
        f"cassandra cannot use port {taken}: another program listens on it; "
        "choose another one with --port, or omit it\n"
    )


def test_a_node_that_cannot_start_shows_the_end_of_its_log(tmp_path):
    node = Cassandra(tmp_path, jars.paths([Cassandra.jars]), free_port(), {"partitioner": "NoSuchThing"})

    with pytest.raises(PenstockError) as caught:
        node.start(lambda _: None)

    assert str(caught.value).startswith("cassandra stopped while starting; its log ")
    assert "NoSuchThing" in str(caught.value)
    assert node.status().state == "stopped"


def test_a_wrong_password_is_named_and_the_right_one_writes(tmp_path, spark, refusal):
    settings = {"authenticator": "PasswordAuthenticator", "authorizer": "CassandraAuthorizer"}
    node = Cassandra(tmp_path, jars.paths([Cassandra.jars]), free_port(), settings)
    address = node.start(lambda _: None)
    try:
        sink = CassandraSink(hosts=address, table="dev.t", create={"key": ["id"]})
        known = sink.model_copy(update={"user": "cassandra", "password": "cassandra"})
        # The first user is made a moment after the node answers.
        until(lambda: _lets_in(known), "the first user")

        nobody = refusal(probe, sink, 0, lambda _: None)
        stranger = refusal(probe, known.model_copy(update={"password": "guess"}), 0, lambda _: None)
        rows = spark.createDataFrame([("a", 1)], "id string, n int")
        known_writer = known.open(spark, rows.schema, "append")
        known_writer.write(rows, Batch(0, "query", "writer"))
    finally:
        node.stop()

    assert nobody == f"Cassandra at {address} requires a login; set 'user' and 'password'"
    assert stranger == f"Cassandra at {address} refuses user 'cassandra'; check 'user' and 'password'"


def _lets_in(sink: CassandraSink) -> bool:
    try:
        probe(sink, 0, lambda _: None)
    except PenstockError:
        return False
    return True
