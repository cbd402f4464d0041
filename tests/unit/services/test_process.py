"""A background process is known by its pid and its start time, never by its pid lock."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
from dataclasses import replace

import pytest

from penstock.errors import ServiceError
from penstock.services import process as mechanics
from penstock.services.process import Process, StartTimeout, Status

FOREVER = [sys.executable, "-c", "import signal; print('here', flush=True); signal.pause()"]
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('here', flush=True); signal.pause()"
STUBBORN = [sys.executable, "-c", DEAF]


@pytest.fixture
def process(tmp_path):
    """A process that is not started; stopped at the end, whatever the test did."""
    process = Process("sleeper", tmp_path / "sleeper")
    with process.lock(lambda _: None):
        pass
    yield process
    process.stop()


def start(process: Process, command=FOREVER) -> Status:
    process.start(command, "127.0.0.1:1")
    process.wait(lambda: "here" in process.log.read_text(), 10)
    return process.status()


def test_what_was_never_started_is_stopped(process):
    assert process.status() == Status("sleeper", "stopped")
    assert process.stop().state == "stopped"


def test_a_started_process_runs_in_a_new_session_and_a_private_folder(process):
    found = start(process)

    assert (found.state, found.address) == ("running", "127.0.0.1:1")
    assert os.getsid(found.pid) == found.pid
    assert stat.S_IMODE(process.folder.stat().st_mode) == 0o700


def test_a_stopped_process_is_gone(process):
    pid = start(process).pid

    found = process.stop()

    assert found.pid == pid
    assert process.status().state == "stopped"
    assert not alive(pid)


def test_a_process_that_ignores_the_gentle_signal_is_killed(process, monkeypatch):
    monkeypatch.setattr(mechanics, "_TERM_SECONDS", 0.2)
    pid = start(process, STUBBORN).pid

    process.stop()

    assert not alive(pid)


def test_a_process_that_went_away_is_stale_until_the_next_stop(process):
    started = start(process)
    os.kill(started.pid, 9)
    mechanics._children[started.pid].wait(10)

    assert process.stop() == replace(started, state="stale")
    assert process.status().state == "stopped"


def test_a_pid_that_now_belongs_to_someone_else_is_stale_and_is_not_killed(process):
    with subprocess.Popen(FOREVER, stdout=subprocess.DEVNULL) as other:
        record = {"pid": other.pid, "identity": "another boot:1", "address": "127.0.0.1:1", "since": "then"}
        (process.folder / "process.json").write_text(json.dumps(record))

        assert process.stop() == Status("sleeper", "stale", other.pid, "127.0.0.1:1", "then")
        assert other.poll() is None

        other.kill()


def test_a_record_cut_short_counts_as_none(process):
    (process.folder / "process.json").write_text('{"pid": 1')

    assert process.status().state == "stopped"


def test_a_process_that_dies_while_starting_shows_the_last_lines_of_its_log_without_stack_frames(process):
    process.start([sys.executable, "-c", "for n in range(30): print('line', n, '\\n\\tat frame')"], "127.0.0.1:1")

    with pytest.raises(ServiceError) as caught:
        process.wait(lambda: False, 10)

    first, *lines = str(caught.value).splitlines()
    assert first == f"sleeper stopped while starting; its log {process.log} ends with"
    assert lines == [f"  line {number} " for number in range(15, 30)]


def test_a_process_that_never_answers_is_given_up_on(process):
    process.start(FOREVER, "127.0.0.1:1")

    with pytest.raises(ServiceError, match=r"^sleeper did not answer within 0 seconds; its log"):
        process.wait(lambda: False, 0)


def test_a_process_is_waited_for_longer_while_its_log_grows_up_to_a_limit():
    growing, quiet = StartTimeout(60, started_at=0), StartTimeout(60, started_at=0)

    assert not any(growing.has_expired(second, log_bytes=second) for second in range(0, 300, 10))
    assert growing.has_expired(301, log_bytes=301)
    assert [second for second in range(0, 100, 10) if quiet.has_expired(second, log_bytes=1)] == [70, 80, 90]


def test_the_last_error_of_a_log_is_shown_even_when_other_lines_follow_it(process):
    says = "print('ERROR the port is taken'); [print('line', n) for n in range(20)]"
    process.start([sys.executable, "-c", says], "127.0.0.1:1")

    with pytest.raises(ServiceError) as caught:
        process.wait(lambda: False, 10)

    assert str(caught.value).splitlines()[-2:] == ["and its last error is", "  ERROR the port is taken"]


def test_each_start_begins_a_new_log_and_keeps_the_one_before(process):
    start(process, [sys.executable, "-c", "import signal; print('first, here', flush=True); signal.pause()"])
    process.stop()

    start(process)

    assert process.log.read_text() == "here\n"
    assert process.log.with_suffix(".previous.log").read_text() == "first, here\n"


def test_the_second_of_two_calls_waits_for_the_first_and_says_so(process):
    said, waits, order = [], threading.Event(), []

    def second() -> None:
        with process.lock(lambda says: (said.append(says), waits.set())):
            order.append("second")

    with process.lock(said.append):
        thread = threading.Thread(target=second)
        thread.start()
        assert waits.wait(10)
        order.append("first")
    thread.join(10)

    assert order == ["first", "second"]
    assert said == ["waiting for another penstock that starts or stops sleeper"]


def alive(pid: int) -> bool:
    return bool(mechanics._identity(pid))
