from __future__ import annotations

import socket
import threading
from itertools import islice

import pytest

from penstock.errors import CallError
from penstock.feeds import FEEDS
from penstock.feeds.loop import FeedLoop
from penstock.feeds.pace import Unpaced
from penstock.feeds.targets import SocketTarget
from penstock.services.kafka import free_port


class Status:
    """Collects status lines; `listening` is released when the port is open."""

    def __init__(self) -> None:
        self.lines, self.listening = [], threading.Semaphore(0)

    def __call__(self, text: str) -> None:
        self.lines.append(text)
        if text.startswith("listening"):
            self.listening.release()


def test_a_reader_gets_every_line(tmp_path):
    port, status, got = free_port(), Status(), []

    def read() -> None:
        assert status.listening.acquire(timeout=30)
        with socket.create_connection(("127.0.0.1", port)) as reader, reader.makefile("rb") as lines:
            got.extend(lines)

    reader = threading.Thread(target=read)
    reader.start()
    made = list(islice(FEEDS["lines"](7), 5000))
    sent = FeedLoop([SocketTarget("127.0.0.1", port, status)], Unpaced()).run(iter(made))
    reader.join()

    assert sent == 5000
    assert [line.rstrip(b"\n") for line in got] == [record.value for record in made]
    assert status.lines == [f"listening at 127.0.0.1:{port}; waiting for a pipeline's socket source to connect"]


def test_a_reader_that_goes_away_is_followed_by_the_next():
    port, status, got = free_port(), Status(), []

    def read() -> None:
        assert status.listening.acquire(timeout=30)
        socket.create_connection(("127.0.0.1", port)).close()
        assert status.listening.acquire(timeout=30)
        with socket.create_connection(("127.0.0.1", port)) as reader, reader.makefile("rb") as lines:
            got.extend(lines)

    reader = threading.Thread(target=read)
    reader.start()
    target = SocketTarget("127.0.0.1", port, status)
    target.open()
    made = list(islice(FEEDS["lines"](7), 1000))
    while len(status.lines) < 3:
        target.send(made)
    target.send(made[:1])
    target.close()
    reader.join()

    assert status.lines[1].startswith("the reader disconnected after ")
    assert got[-1].rstrip(b"\n") == made[0].value


def test_a_port_in_use_is_refused():
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]

        with pytest.raises(CallError, match=rf"cannot listen at 127.0.0.1:{port}: address already in use; stop the"):
            SocketTarget("127.0.0.1", port, print).open()
