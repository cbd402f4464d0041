"""The driver's end of the channel: what each order, and the supervisor's death, makes of it."""

from __future__ import annotations

import itertools
import os
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.driver import channel as module
from penstock.driver.channel import StartOrder, SupervisorChannel
from penstock.supervise.protocol import Channel
from penstock.text import Waiting

ORDER = StartOrder("/storage/p/lease", 7, 2, "/storage/p", "abc")
START = {
    "order": "start",
    "lease": ORDER.lease,
    "token": 7,
    "attempt": 2,
    "storage": "/storage/p",
    "fingerprint": "abc",
}


class Ends:
    """The supervisor's end of a channel, and the driver's."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        ours.settimeout(10)
        self.supervisor = Channel(ours)
        self.driver = SupervisorChannel(Channel(theirs))

    def received(self) -> dict[str, Any]:
        return next(self.supervisor.messages())[0]


@pytest.fixture
def ends() -> Iterator[Ends]:
    made = Ends()
    yield made
    made.supervisor.close()


def test_the_start_order_is_waited_for(ends: Ends):
    ends.supervisor.send(START)

    assert ends.driver.wait_for_start() == ORDER
    assert ends.driver.draining == ""
    assert not ends.driver.is_orphaned


def test_the_lock_comes_with_the_start_order(ends: Ends, tmp_path: Path):
    lock = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)

    ends.supervisor.send(START, lock)
    order = ends.driver.wait_for_start()

    assert order is not None
    assert replace(order, files=()) == ORDER
    (theirs,) = order.files
    assert os.path.sameopenfile(theirs, lock)
    os.close(theirs)
    os.close(lock)


def test_an_order_to_drain_wakes_the_driver_and_the_first_reason_stays(ends: Ends):
    ends.supervisor.send(START)
    ends.supervisor.send({"order": "drain", "why": "SIGTERM"})
    assert ends.driver.wake.wait(10)
    ends.driver.request_drain("another reason")

    assert ends.driver.draining == "SIGTERM"
    assert not ends.driver.is_orphaned


def test_the_end_of_the_supervisor_makes_the_driver_an_orphan_that_drains(ends: Ends):
    ends.supervisor.send(START)
    ends.driver.wait_for_start()
    ends.supervisor.close()

    assert ends.driver.wake.wait(10)
    assert ends.driver.is_orphaned
    assert ends.driver.draining == "the supervisor is gone"


def test_there_is_nothing_to_start_when_the_supervisor_ends_before_its_order(ends: Ends):
    ends.supervisor.close()

    assert ends.driver.wait_for_start() is None


def test_messages_reach_the_supervisor(ends: Ends):
    ends.driver.send("batch", progress={"batchId": 3})
    assert ends.received() == {"what": "batch", "progress": {"batchId": 3}}

    ends.driver.print_status("p: starting Spark")
    assert ends.received() == {"what": "status", "text": "p: starting Spark"}

    ends.driver.print_status(Waiting("the broker does not answer yet"))
    assert ends.received() == {"what": "waiting", "text": "the broker does not answer yet"}


def test_messages_of_an_orphan_are_lost_without_an_error(ends: Ends):
    ends.supervisor.close()
    assert ends.driver.wake.wait(10)

    ends.driver.send("heartbeat", queries={})


def test_a_supervisor_that_is_stopped_holds_nobody_up_and_gets_the_newest_messages(ends: Ends):
    def send() -> None:
        ends.driver.send("started", sinks=["out"])
        for number in range(20_000):
            ends.driver.send("batch", progress={"batchId": number, "text": "x" * 1000})

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    sender.join(60)
    assert not sender.is_alive(), "a batch waits for the supervisor"

    received = [message for message, _ in itertools.islice(ends.supervisor.messages(), 1000)]
    numbers = [message["progress"]["batchId"] for message in received if message["what"] == "batch"]
    assert received[0]["what"] == "started"
    assert numbers == sorted(numbers)
    assert numbers[-1] > 19_000


def test_the_last_message_is_on_its_way_before_the_driver_exits(ends: Ends):
    for number in range(100):
        ends.driver.send("batch", progress={"batchId": number})
    ends.driver.send("ended", well=True)

    assert not ends.driver._queued
    received = [message for message, _ in itertools.islice(ends.supervisor.messages(), 101)]
    assert received[-1] == {"what": "ended", "well": True}


def test_the_end_of_a_driver_does_not_wait_for_a_supervisor_that_is_stopped(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "_LAST_SECONDS", 0.1)
    for _ in range(1000):
        ends.driver.send("batch", progress={"text": "x" * 1000})

    ender = threading.Thread(target=lambda: ends.driver.send("ended", well=True), daemon=True)
    ender.start()
    ender.join(60)

    assert not ender.is_alive()
