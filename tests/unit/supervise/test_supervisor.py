"""The supervisor's decisions, with a driver that follows a script: no process, no Spark, no waiting."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.model import Restart
from penstock.processes import wait_until
from penstock.storage.lease import LeaseLostError, LeaseUnreadableError
from penstock.supervise import supervisor as module
from penstock.supervise.supervisor import End, State, Supervisor

POLICY = Restart(limit=3, within_seconds=600, backoff_seconds=0.01, most_seconds=1, jitter=0)
STARTED = {"what": "started", "sinks": ["out"]}
ENDED_WELL = {"what": "ended", "well": True}
_MOST_POLLS = 2000


def failed(reason: str, **facts: Any) -> dict[str, Any]:
    return {"what": "ended", "well": False, "reason": reason, **facts}


@dataclass(eq=False)
class ScriptedDriver:
    """Does one thing of its script whenever it is polled: sends a message, calls a function, or exits with a code."""

    script: list[Any]
    on_drain: list[Any] = field(default_factory=list)
    pid: int = 4711
    order: dict[str, Any] = field(default_factory=dict)
    lock: int | None = None
    drained: list[str] = field(default_factory=list)
    is_ended: bool = False
    on_message: Callable[[Any, dict[str, Any]], None] | None = None
    _code: int | None = None
    _polls: int = 0

    def send_start(self, on_message: Callable[[Any, dict[str, Any]], None], lock: int | None, **facts: Any) -> None:
        self.on_message, self.lock, self.order = on_message, lock, facts

    def drain(self, why: str) -> None:
        self.drained.append(why)
        self.script += self.on_drain

    def exit_code(self) -> int | None:
        self._polls += 1
        assert self._polls < _MOST_POLLS, "the supervisor waits for ever"
        action = self.script.pop(0) if self.script and self._code is None else None
        if isinstance(action, dict):
            self.on_message(self, action)
        elif isinstance(action, int):
            self._code = action
        elif action is not None:
            action()
        return self._code

    def end(self) -> int:
        self.is_ended = True
        self._code = -signal.SIGKILL if self._code is None else self._code
        return self._code


@dataclass
class ScriptedLease:
    """A lease that is held until `lost` says otherwise."""

    url: str = "/storage/p/lease"
    fd: int | None = 9
    holder: Any = field(default_factory=lambda: SimpleNamespace(token=7, started="boot:17"))
    error: Exception | None = None
    renewals: int = 0

    def renew(self) -> None:
        self.renewals += 1
        if self.error is not None:
            raise self.error


@dataclass
class World:
    """A supervisor with its drivers, and everything that it emitted and showed."""

    drivers: list[ScriptedDriver]
    policy: Restart = POLICY
    lease: ScriptedLease = field(default_factory=ScriptedLease)
    now: float = 0.0
    settings: dict[str, Any] = field(default_factory=dict)
    events: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    shown: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.waiting = self.drivers[1:]
        self.state = State("p", ("out",))
        self.supervisor = Supervisor(
            start=lambda: self.waiting.pop(0),
            lease=self.lease,
            policy=self.policy,
            state=self.state,
            emit=lambda what, **facts: self.events.append((what, facts)),
            show=self.shown.append,
            storage="/storage/p",
            fingerprint="abc",
            **self.settings,
        )

    def run(self) -> End:
        return self.supervisor.run(self.drivers[0])

    def stop(self) -> None:
        self.supervisor.request_stop("SIGTERM")

    def names(self) -> list[str]:
        return [what for what, _ in self.events]

    def facts(self, what: str) -> list[dict[str, Any]]:
        return [facts for name, facts in self.events if name == what]

    def use_clock(self) -> None:
        """Time that passes only when a script says so."""
        self.supervisor.clock = lambda: self.now

    def pass_time(self, seconds: float) -> Callable[[], None]:
        def later() -> None:
            self.now += seconds

        return later


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_POLL_SECONDS", 0.001)
    monkeypatch.setattr(module, "RENEW_SECONDS", 0.001)


def test_a_driver_that_ends_well_ends_the_run():
    world = World([ScriptedDriver([STARTED, ENDED_WELL, 0])])

    end = world.run()

    assert end == End(well=True)
    assert world.drivers[0].is_ended
    assert world.state.phase == "ended"
    assert world.state.driver_pid is None
    assert world.events == [
        ("driver_started", {"pid": 4711, "attempt": 0, "supervisor": "boot:17"}),
        ("driver_ended", {"pid": 4711, "code": 0, "well": True, "reason": ""}),
    ]


def test_the_last_message_counts_when_the_driver_has_exited_before_it_is_read():
    driver = ScriptedDriver([lambda: (driver.on_message(driver, ENDED_WELL), driver.script.append(0)), 0])

    assert World([driver]).run() == End(well=True)


def test_the_driver_runs_once_its_queries_have_started_and_is_ready_when_they_are_active():
    seen = []
    driver = ScriptedDriver(
        [
            lambda: seen.append((world.state.phase, world.state.is_ready)),
            STARTED,
            lambda: seen.append((world.state.phase, world.state.is_ready)),
            {"what": "heartbeat", "queries": {"out": {"active": True, "busy_seconds": 0.0}}},
            lambda: seen.append((world.state.phase, world.state.is_ready)),
            ENDED_WELL,
            0,
        ]
    )
    world = World([driver])

    world.run()

    assert seen == [("starting", False), ("running", False), ("running", True)]


def test_a_retryable_failure_restarts_with_the_next_attempt_after_the_policys_wait():
    first = ScriptedDriver([failed("the broker is down"), 1], pid=1)
    second = ScriptedDriver([failed("the broker is down"), 1], pid=2)
    world = World([first, second, ScriptedDriver([ENDED_WELL, 0], pid=3)])

    end = world.run()

    assert end == End(well=True)
    assert [driver.order["attempt"] for driver in world.drivers] == [0, 1, 2]
    assert world.facts("restarting") == [
        {"reason": "the broker is down", "wait_seconds": 0.0, "restart": 1},
        {"reason": "the broker is down", "wait_seconds": 0.0, "restart": 2},
    ]
    assert world.state.restarts == 2
    assert all(driver.is_ended for driver in world.drivers)


def test_the_wait_before_a_restart_is_the_policys():
    policy = Restart(limit=3, backoff_seconds=8, most_seconds=60, jitter=0)
    second = ScriptedDriver([])
    world = World([ScriptedDriver([failed("the broker is down"), 1]), second], policy)
    emit = world.supervisor.emit

    def stop_during_the_wait(what: str, **facts: Any) -> None:
        emit(what, **facts)
        if what == "restarting":
            world.stop()

    world.supervisor.emit = stop_during_the_wait
    end = world.run()

    assert world.facts("restarting") == [{"reason": "the broker is down", "wait_seconds": 8, "restart": 1}]
    assert end == End(well=True)
    assert second.is_ended
    assert second.order == {}


def test_a_failure_that_is_not_retryable_does_not_restart():
    world = World([ScriptedDriver([failed("p.yaml:3: no such column", retry=False), 1])])

    assert world.run() == End(well=False, reason="p.yaml:3: no such column", retry=False)
    assert "restarting" not in world.names()


def test_no_failure_restarts_when_restarting_is_off():
    world = World([ScriptedDriver([failed("the broker is down"), 1])], settings={"restarting": False})

    assert world.run() == End(well=False, reason="the broker is down")


def test_after_the_limit_it_gives_up_and_says_so():
    policy = Restart(limit=2, within_seconds=600, backoff_seconds=0.001, jitter=0)
    world = World([ScriptedDriver([failed("the broker is down"), 1]) for _ in range(3)], policy)

    end = world.run()

    assert end.reason == (
        "the broker is down\n"
        "2 restarts within 10 minutes did not help, so there are no more; "
        "fix the cause and run it again; 'restart: {limit: ...}' allows more"
    )
    assert not end.well
    assert (end.retry, end.exit_code) == (True, 75)
    assert world.facts("gave_up") == [{"restarts": 2, "reason": "the broker is down"}]


def test_stop_drains_the_driver_and_does_not_restart_it():
    driver = ScriptedDriver([STARTED, lambda: world.stop()], on_drain=[ENDED_WELL, 0])
    world = World([driver], settings={"drain_seconds": 20.0})

    end = world.run()

    assert end == End(well=True)
    assert driver.drained == ["SIGTERM"]
    assert world.facts("draining") == [{"why": "SIGTERM", "most_seconds": 20.0}]


def test_a_driver_that_fails_while_it_drains_is_not_restarted():
    driver = ScriptedDriver([lambda: world.stop()], on_drain=[failed("the broker is down"), 1])
    world = World([driver])

    assert world.run() == End(well=False, reason="the broker is down")


def test_a_second_stop_ends_at_once():
    driver = ScriptedDriver([STARTED, lambda: world.stop(), lambda: world.stop()])
    world = World([driver])

    end = world.run()

    assert end == End(well=False, reason="stopped at once", retry=False)
    assert driver.is_ended
    assert world.names() == ["driver_started", "draining", "stopping_now", "driver_ended"]


def test_a_driver_that_does_not_drain_in_time_is_killed():
    driver = ScriptedDriver([lambda: world.stop(), lambda: world.pass_time(66)()])
    world = World([driver], settings={"drain_seconds": 60.0})
    world.use_clock()

    end = world.run()

    assert end == End(well=False, reason="the driver did not drain within 60 s")
    assert driver.is_ended


def test_a_silent_driver_is_killed_and_the_reason_says_so():
    driver = ScriptedDriver([STARTED, *[lambda: world.pass_time(6.1)()] * 10])
    world = World([driver], settings={"restarting": False})
    world.use_clock()

    end = world.run()

    assert end == End(well=False, reason="the driver has not been heard of for 61 s")
    assert driver.is_ended
    assert world.facts("driver_ended")[0]["code"] == -signal.SIGKILL


def test_a_batch_that_does_not_end_is_named_and_the_driver_is_restarted():
    policy = Restart(limit=3, backoff_seconds=0.001, jitter=0, stalled_seconds=30, stalled_times=10)
    batch = {"what": "batch", "progress": {"name": "out", "durationMs": {"triggerExecution": 4000}}}
    stuck = {"what": "heartbeat", "queries": {"out": {"active": True, "busy_seconds": 41.0}}}
    usual = {"what": "heartbeat", "queries": {"out": {"active": True, "busy_seconds": 39.0}}}
    world = World([ScriptedDriver([batch, usual, stuck]), ScriptedDriver([ENDED_WELL, 0])], policy)

    end = world.run()

    assert end == End(well=True)
    assert world.facts("restarting")[0]["reason"] == "the query 'out' has not finished a batch for 41 s"
    assert world.drivers[0].is_ended


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (-signal.SIGKILL, "the driver was killed by SIGKILL"),
        (-signal.SIGSEGV, "the driver was killed by SIGSEGV"),
        (-40, "the driver was killed by signal 40"),
        (3, "the driver ended with exit code 3"),
        (0, "the driver ended with exit code 0"),
    ],
)
def test_a_driver_that_dies_without_a_message_is_named_by_its_signal_or_exit_code(code: int, reason: str):
    world = World([ScriptedDriver([STARTED, int(code)])], settings={"restarting": False})

    assert world.run() == End(well=False, reason=reason)


def test_messages_of_an_earlier_driver_are_ignored():
    old = ScriptedDriver([failed("the broker is down"), 1])
    late = {"what": "heartbeat", "queries": {"out": {"active": True}}, "of": "the old driver"}
    new = ScriptedDriver(
        [
            lambda: old.on_message(old, late),
            lambda: old.on_message(old, failed("from the grave", retry=False)),
            lambda: states.append(dict(world.state.queries)),
            ENDED_WELL,
            0,
        ]
    )
    states: list[dict[str, Any]] = []
    world = World([old, new])

    end = world.run()

    assert end == End(well=True)
    assert states == [{}]
    assert late not in world.shown


def test_a_lost_lease_stops_at_once():
    lease = ScriptedLease(error=LeaseLostError("the lease was taken over by pid 3 on other"))
    world = World([ScriptedDriver([STARTED])], lease=lease)

    end = world.run()

    assert end == End(well=False, reason="stopped at once", retry=False)
    assert world.facts("lease_lost") == [{"reason": "the lease was taken over by pid 3 on other"}]
    assert world.drivers[0].is_ended


def test_a_lease_that_cannot_be_written_is_reported_once_and_the_run_goes_on():
    lease = ScriptedLease(error=OSError(28, "No space left on device"))
    driver = ScriptedDriver([lambda: None] * 50 + [ENDED_WELL, 0])
    world = World([driver], lease=lease)

    end = world.run()

    assert end == End(well=True)
    assert world.facts("lease_beat_failed") == [{"reason": "[Errno 28] No space left on device"}]


def test_every_start_order_carries_the_lease_the_storage_the_fingerprint_and_the_attempt():
    world = World([ScriptedDriver([failed("the broker is down"), 1]), ScriptedDriver([ENDED_WELL, 0])])

    world.run()

    same = {"lease": "/storage/p/lease", "token": 7, "storage": "/storage/p", "fingerprint": "abc"}
    assert [driver.order for driver in world.drivers] == [{**same, "attempt": 0}, {**same, "attempt": 1}]
    assert [driver.lock for driver in world.drivers] == [9, 9]


def test_what_the_driver_says_is_shown_but_not_its_end():
    status = {"what": "status", "text": "p: starting Spark"}
    world = World([ScriptedDriver([status, STARTED, ENDED_WELL, 0])])

    world.run()

    assert world.shown == [status, STARTED]


def test_a_supervisor_that_was_stopped_itself_does_not_take_its_driver_for_silent():
    driver = ScriptedDriver([STARTED, lambda: world.pass_time(600)(), lambda: None, ENDED_WELL, 0])
    world = World([driver])
    world.use_clock()

    assert world.run() == End(well=True)


@pytest.mark.parametrize("error", [LeaseUnreadableError("the lease cannot be read"), RuntimeError("bucket is away")])
def test_whatever_a_renewal_raises_it_is_tried_again_and_nothing_is_taken_for_lost(error: Exception):
    lease = ScriptedLease(error=error)

    def wait_for(condition: Callable[[], bool]) -> Callable[[], None]:
        return lambda: None if wait_until(condition, 20) else pytest.fail("the renewals have ended")

    def heal() -> None:
        lease.renewals, lease.error = 0, None

    reported = wait_for(lambda: bool(world.facts("lease_beat_failed")))
    driver = ScriptedDriver([reported, heal, wait_for(lambda: lease.renewals > 1), ENDED_WELL, 0])
    world = World([driver], lease=lease)

    assert world.run() == End(well=True)
    assert world.facts("lease_beat_failed") == [{"reason": str(error)}]
    assert world.facts("lease_lost") == []
