"""The driver's heartbeat, with short-lived processes in place of the JVM."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JError

from penstock.driver import heartbeat as module
from penstock.driver.channel import StartOrder
from penstock.driver.heartbeat import Heartbeat, LeaseKeeper
from penstock.storage import lease

_PATIENCE_SECONDS = 20.0


@dataclass
class RecordingChannel:
    """Keeps what is sent to the supervisor."""

    sent: list[dict[str, Any]] = field(default_factory=list)
    is_orphaned: bool = False
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def send(self, what: str, **facts: Any) -> None:
        with self._changed:
            self.sent.append({"what": what, **facts})
            self._changed.notify_all()

    def wait_for(self, condition: Callable[[list[dict[str, Any]]], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: condition(self.sent), _PATIENCE_SECONDS), self.sent


@dataclass
class Exits:
    """What would have ended this process."""

    codes: list[int] = field(default_factory=list)
    killed: list[int] = field(default_factory=list)
    done: threading.Event = field(default_factory=threading.Event)

    def exit(self, code: int) -> None:
        self.codes.append(code)
        self.done.set()

    def kill(self, session: int) -> None:
        self.killed.append(session)
        self.done.set()


@pytest.fixture(autouse=True)
def exits(monkeypatch: pytest.MonkeyPatch) -> Exits:
    made = Exits()
    monkeypatch.setattr(os, "_exit", made.exit)
    monkeypatch.setattr(module, "kill_session", made.kill)
    monkeypatch.setattr(module, "_HEARTBEAT_SECONDS", 0.01)
    return made


@pytest.fixture
def channel() -> RecordingChannel:
    return RecordingChannel()


@pytest.fixture
def order(tmp_path: Path) -> StartOrder:
    return StartOrder(str(tmp_path / "lease"), 1, 0, str(tmp_path), "abc")


@pytest.fixture
def heartbeat(channel: RecordingChannel, order: StartOrder) -> Heartbeat:
    return Heartbeat(channel, order, drain_seconds=60.0)


@pytest.fixture
def java() -> Iterator[Callable[[str], subprocess.Popen[bytes]]]:
    """Starts a program in place of the JVM."""
    started: list[subprocess.Popen[bytes]] = []

    def start(program: str) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen([sys.executable, "-S", "-c", program], stdin=subprocess.PIPE))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdin.close()


UNTIL_STDIN_CLOSES = "import sys; sys.stdin.read()"
FOR_EVER = "import time; time.sleep(600)"


def wait_for_watcher() -> None:
    for thread in threading.enumerate():
        if thread.name == "jvm":
            thread.join(_PATIENCE_SECONDS)


def test_heartbeats_carry_what_the_queries_do(channel: RecordingChannel, heartbeat: Heartbeat):
    facts = {"out": {"active": True, "busy_seconds": 0.5}}

    with heartbeat:
        channel.wait_for(lambda sent: bool(sent))
        heartbeat.watch_queries(lambda: facts)
        channel.wait_for(lambda sent: sent[-1]["queries"] == facts)

    assert channel.sent[0] == {"what": "heartbeat", "queries": {}}


def test_a_heartbeat_that_the_jvm_does_not_answer_is_left_out(channel: RecordingChannel, heartbeat: Heartbeat):
    answers = iter([{"n": 1}, Py4JError("no answer"), ConnectionRefusedError(), {"n": 4}])

    def status() -> dict[str, Any]:
        answer = next(answers, {})
        if isinstance(answer, Exception):
            raise answer
        return answer

    heartbeat.watch_queries(status)
    with heartbeat:
        channel.wait_for(lambda sent: len(sent) > 2)

    assert [message["queries"] for message in channel.sent[:3]] == [{"n": 1}, {"n": 4}, {}]


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (1, "the driver's JVM has died: exit code 1"),
        (3, "the driver's JVM has died: it was out of memory; raise spark.driver.memory"),
    ],
)
def test_the_driver_reports_a_dead_jvm_and_exits(channel, heartbeat, exits, java, code: int, reason: str):
    heartbeat.watch_jvm(java(f"import sys; sys.exit({code})"))

    assert exits.done.wait(_PATIENCE_SECONDS)
    assert exits.codes == [1]
    assert channel.sent == [{"what": "ended", "well": False, "reason": reason, "retry": True}]


def test_a_jvm_that_is_ended_on_purpose_is_no_failure(channel, heartbeat, exits, java):
    process = java(UNTIL_STDIN_CLOSES)
    heartbeat.watch_jvm(process)
    heartbeat.expect_exit()

    heartbeat.end(well=True)
    wait_for_watcher()

    assert process.returncode == 0
    assert channel.sent == [{"what": "ended", "well": True}]
    assert exits.codes == []


def test_queries_are_not_asked_any_more_once_the_jvm_is_about_to_end(channel, heartbeat):
    heartbeat.watch_queries(lambda: pytest.fail("asked"))
    heartbeat.expect_exit()

    with heartbeat:
        channel.wait_for(lambda sent: sent == [{"what": "heartbeat", "queries": {}}])


def test_a_jvm_that_does_not_exit_is_killed(channel, heartbeat, java, monkeypatch):
    monkeypatch.setattr(module, "_JVM_EXIT_SECONDS", 0.1)
    process = java(FOR_EVER)
    heartbeat.watch_jvm(process)
    heartbeat.expect_exit()

    heartbeat.end(well=False, reason="the broker is down", retry=True)

    assert process.returncode == -9
    assert channel.sent == [{"what": "ended", "well": False, "reason": "the broker is down", "retry": True}]


def test_the_end_is_sent_also_when_there_was_no_jvm(channel, heartbeat):
    heartbeat.end(well=False, reason="p.yaml:1: no", retry=False)

    assert channel.sent == [{"what": "ended", "well": False, "reason": "p.yaml:1: no", "retry": False}]


def test_a_failure_of_py4j_waits_for_the_jvm_to_exit_so_that_its_death_is_the_reason(
    channel, heartbeat, exits, java, monkeypatch
):
    monkeypatch.setattr(module, "_JVM_CRASH_SECONDS", 2.0)
    process = java(UNTIL_STDIN_CLOSES)
    heartbeat.watch_jvm(process)
    process.stdin.close()

    heartbeat.wait_for_jvm_exit()

    assert [message["reason"] for message in channel.sent] == ["the driver's JVM has died: exit code 0"]
    assert exits.codes == [1]


def test_a_failure_of_py4j_with_a_live_jvm_is_waited_for_briefly(channel, heartbeat, exits, java, monkeypatch):
    monkeypatch.setattr(module, "_JVM_CRASH_SECONDS", 0.05)
    heartbeat.watch_jvm(java(FOR_EVER))

    heartbeat.wait_for_jvm_exit()

    assert channel.sent == []
    assert exits.codes == []
    heartbeat.expect_exit()


def test_an_abandoned_driver_exits_at_once(channel, heartbeat, exits):
    heartbeat.abandon("the running batch of out did not end", retry=True)

    assert channel.sent == [
        {"what": "ended", "well": False, "reason": "the running batch of out did not end", "retry": True}
    ]
    assert (exits.codes, exits.killed) == ([1], [])


def test_an_abandoned_orphan_kills_its_session_because_nobody_else_does(channel, heartbeat, exits):
    channel.is_orphaned = True

    heartbeat.abandon("the running batch of out did not end", retry=True)

    assert exits.killed == [os.getsid(0)]


def test_an_orphan_renews_the_lease(channel, heartbeat, order, exits):
    held = lease.LeaseAcquirer(order.lease, lambda _: None).acquire()
    channel.is_orphaned = True

    with heartbeat:
        channel.wait_for(lambda sent: len(sent) > 3)

    found = lease.read(order.lease)
    assert found is not None
    assert found.beat >= 2
    assert found.token == order.token
    assert exits.killed == []
    held.release()


def test_an_orphan_leaves_a_lease_alone_that_another_has_taken(channel, heartbeat, order):
    lease.LeaseAcquirer(order.lease, lambda _: None).acquire().release()
    other = lease.LeaseAcquirer(order.lease, lambda _: None).acquire()
    channel.is_orphaned = True

    with heartbeat:
        channel.wait_for(lambda sent: len(sent) > 3)

    found = lease.read(order.lease)
    assert found is not None
    assert (found.token, found.beat) == (2, 0)
    other.release()


@pytest.mark.parametrize("damage", ["unreadable lease", "dead JVM", "silent JVM", "storage away"])
def test_an_orphan_that_does_not_end_in_time_is_killed_whatever_else_fails(channel, order, exits, monkeypatch, damage):
    monkeypatch.setattr(module, "_JVM_EXIT_SECONDS", 0.05)
    heartbeat = Heartbeat(channel, order, drain_seconds=0.0)
    channel.is_orphaned = True
    silence = threading.Event()
    if damage == "unreadable lease":
        Path(order.lease).write_text("{")
    elif damage == "dead JVM":
        heartbeat.watch_queries(lambda: (_ for _ in ()).throw(Py4JError("no answer")))
    elif damage == "silent JVM":
        heartbeat.watch_queries(lambda: {"waited": silence.wait(_PATIENCE_SECONDS)})
    else:
        monkeypatch.setattr(lease, "read", lambda _url: silence.wait(_PATIENCE_SECONDS))

    with heartbeat:
        assert exits.done.wait(_PATIENCE_SECONDS)
    silence.set()

    assert exits.killed[0] == os.getsid(0)


@pytest.mark.parametrize("error", [KeyError("isTriggerActive"), RuntimeError("changed size"), AttributeError("None")])
def test_no_error_of_a_query_ends_the_heartbeat(channel, heartbeat, error: Exception):
    answers = iter([error, {"n": 2}])

    def status() -> dict[str, Any]:
        answer = next(answers, {})
        if isinstance(answer, Exception):
            raise answer
        return answer

    heartbeat.watch_queries(status)
    with heartbeat:
        channel.wait_for(lambda sent: bool(sent))

    assert channel.sent[0]["queries"] == {"n": 2}


def test_an_orphan_releases_the_lease_at_its_end(channel, heartbeat, order):
    held = lease.LeaseAcquirer(order.lease, lambda _: None).acquire()
    channel.is_orphaned = True

    heartbeat.end(well=True)

    found = lease.read(order.lease)
    assert found is not None
    assert found.released
    held.release()


def test_a_driver_with_a_supervisor_leaves_the_release_to_it(channel, heartbeat, order):
    held = lease.LeaseAcquirer(order.lease, lambda _: None).acquire()

    heartbeat.end(well=True)

    assert lease.read(order.lease) == held.holder
    held.release()


def beats(url: str) -> int:
    found = lease.read(url)
    assert found is not None
    return found.beat


def test_a_driver_renews_the_lease_of_a_stopped_supervisor_until_it_continues(order: StartOrder):
    held = lease.LeaseAcquirer(order.lease, lambda _: None).acquire()
    keeper = LeaseKeeper(order.lease, order.token)

    found = []
    for second in range(8):
        keeper.renew(float(second), at_once=False)
        found.append(beats(order.lease))
    assert found == [0, 0, 0, 0, 1, 2, 3, 4], "renewed every second once it was not for four"

    held.renew()
    assert beats(order.lease) == 5
    for second in range(8, 11):
        keeper.renew(float(second), at_once=False)
    assert beats(order.lease) == 5
    held.release()


def test_a_damaged_lease_of_a_stopped_supervisor_is_replaced(order: StartOrder):
    held = lease.LeaseAcquirer(order.lease, lambda _: None).acquire()
    keeper = LeaseKeeper(order.lease, order.token)
    keeper.renew(0.0, at_once=False)
    Path(order.lease).write_text("{")

    keeper.renew(1.0, at_once=False)
    keeper.renew(5.0, at_once=False)

    assert beats(order.lease) == 1
    held.release()


def test_a_driver_does_not_renew_the_lease_of_another_holder(order: StartOrder):
    lease.LeaseAcquirer(order.lease, lambda _: None).acquire().release()
    other = lease.LeaseAcquirer(order.lease, lambda _: None).acquire()
    keeper = LeaseKeeper(order.lease, order.token)

    for second in range(10):
        keeper.renew(float(second), at_once=True)

    assert lease.read(order.lease) == other.holder
    other.release()
