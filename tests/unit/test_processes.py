from __future__ import annotations

import os
import signal
import subprocess
import sys

from penstock import processes
from penstock.processes import wait_until

SLEEPER = [sys.executable, "-c", "import signal; print('ready', flush=True); signal.pause()"]


def start(**settings: object) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(SLEEPER, stdout=subprocess.PIPE, **settings)
    assert process.stdout is not None
    process.stdout.readline()
    return process


def test_a_live_process_keeps_its_identity():
    assert processes.identity(os.getpid())
    assert processes.identity(os.getpid()) == processes.identity(os.getpid())


def test_two_processes_have_two_identities():
    with start() as other:
        assert processes.identity(other.pid) != processes.identity(os.getpid())
        other.kill()


def test_a_zombie_has_no_identity():
    with start() as other:
        other.kill()
        os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)

        assert processes.identity(other.pid) == ""


def test_without_proc_the_identity_comes_from_the_clock():
    assert processes._identity_by_clock(os.getpid()) == processes._identity_by_clock(os.getpid())
    assert processes._identity_by_clock(2**22 + 1) == ""


def test_every_process_of_a_session_is_killed():
    with start(start_new_session=True) as other:
        assert processes.list_session(other.pid) == [other.pid]

        assert processes.kill_session(other.pid)
        assert other.wait() == -signal.SIGKILL


def test_a_pid_that_began_after_a_moment_is_another_process():
    now = processes.psutil.Process().create_time()

    assert processes.was_running_at(os.getpid(), now)
    assert not processes.was_running_at(os.getpid(), now - 60)


def test_a_condition_that_holds_is_not_waited_for():
    assert wait_until(lambda: True, 0.0)


def test_a_condition_is_asked_again_until_it_holds():
    answers = iter([False, False, True])

    assert wait_until(lambda: next(answers), 60, poll_seconds=0.001)


def test_a_condition_that_never_holds_is_given_up():
    assert not wait_until(lambda: False, 0.01, poll_seconds=0.001)
