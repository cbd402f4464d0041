"""Sources for trying out: made-up rows, and lines of a TCP server."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from time import monotonic

import pytest

from penstock.feeds import FEEDS
from penstock.feeds.loop import FeedLoop
from penstock.feeds.pace import Steady
from penstock.feeds.targets import SocketTarget
from penstock.services.kafka import free_port

PATIENCE_SECONDS = 60


@contextmanager
def serving(*lines: str) -> Iterator[int]:
    """The port of a server that sends some lines to everyone who connects, and then keeps the line open."""
    done = threading.Event()

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.sendall("".join(f"{line}\n" for line in lines).encode())
            done.wait(PATIENCE_SECONDS)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

        def handle_error(self, request, client_address) -> None:
            """Whoever only looked whether someone listens has hung up already."""

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.server_address[1]
        done.set()
        server.shutdown()


def reading(port: int, more: str = "", options: str = "") -> str:
    return f"""
    name: p
    sources:
      lines:
        socket: {{port: {port}{options}}}
        {more or "metadata: false"}
    sinks:
      out: {{from: lines, memory: {{}}}}
    """


def read(project, port: int, count: int, more: str = "", options: str = ""):
    """Run a socket source until the sink has so many rows, and give what was reported."""
    pipeline = project.load(reading(port, more, options))
    with project.started(pipeline) as (queries, run):
        deadline = monotonic() + PATIENCE_SECONDS
        while sum(batch.rows_in for batch in run.batches) < count:
            assert monotonic() < deadline
            next(iter(queries)).processAllAvailable()
    return run


def test_lines_of_a_server_are_rows_of_value(project):
    with serving("one", "two") as port:
        read(project, port, 2)

    assert project.rows("out") == [("one",), ("two",)]


def test_lines_of_a_server_can_carry_the_time_they_were_read_at(project):
    with serving("one") as port:
        read(project, port, 1, options=", timestamps: true")

    assert project.spark.table("out").dtypes == [("value", "string"), ("timestamp", "timestamp")]


def test_lines_of_a_server_can_be_decoded(project):
    with serving('{"id": 1}', "not json", '{"id": 2}') as port:
        run = read(project, port, 3, more="json: id int\n        bad_records: drop")

    assert project.rows("out") == [(1,), (2,)]
    assert run.bad == {"lines": 1}


def test_a_server_that_is_not_there_is_named(project, refusal):
    with socketserver.TCPServer(("127.0.0.1", 0), socketserver.BaseRequestHandler) as gone:
        port = gone.server_address[1]

    said = refusal(project.watch, project.load(reading(port)))

    assert said.endswith(
        f": nothing listens at 127.0.0.1:{port}; start the server first (for example: nc -lk {port}) "
        "or correct host and port"
    )


@pytest.mark.parametrize("more", ["", ", partitions: 1, ramp_up_seconds: 1"])
def test_a_rate_gives_numbered_rows(project, more):
    pipeline = project.load(f"""
        name: p
        sources:
          ticks: {{rate: {{rows_per_second: 1000{more}}}}}
        sinks:
          out: {{from: ticks, memory: {{}}}}
        """)

    with project.started(pipeline) as (queries, run):
        deadline = monotonic() + PATIENCE_SECONDS
        while not run.batches:
            assert monotonic() < deadline
            next(iter(queries)).processAllAvailable()

    assert project.spark.table("out").dtypes == [("timestamp", "timestamp"), ("value", "bigint")]
    assert project.spark.table("out").where("value = 0").count() == 1


def test_a_feed_that_waits_at_a_port_is_read_to_its_last_line(project):
    port, made, listening = free_port(), list(islice(FEEDS["lines"](7), 500)), threading.Event()
    target = SocketTarget("127.0.0.1", port, lambda _: listening.set())
    feeding = threading.Thread(target=FeedLoop([target], Steady(2000)).run, args=(iter(made),))
    feeding.start()
    assert listening.wait(PATIENCE_SECONDS)

    read(project, port, 500)
    feeding.join()

    assert sorted(row[0] for row in project.rows("out")) == sorted(record.value.decode() for record in made)
