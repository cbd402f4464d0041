"""One writer per storage, on one machine and on several."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import asdict, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from penstock.storage import lease
from penstock.storage.lease import Lease, LeaseAcquirer, LeaseHeldError, LeaseLostError

HOLD = """
import sys, subprocess, time
from penstock.storage.lease import LeaseAcquirer
lease = LeaseAcquirer(sys.argv[1], print).acquire()
if sys.argv[2] == "child":
    subprocess.Popen(["sleep", "2"], pass_fds=(lease.fd,), stdout=subprocess.DEVNULL)
print("held", flush=True)
time.sleep(600)
"""


def acquirer(url: Path | str) -> LeaseAcquirer:
    return LeaseAcquirer(str(url), lambda _: None, leave_seconds=5, renew_seconds=0.05, stale_seconds=0.5)


def elsewhere(found: Lease, **changes: object) -> None:
    """Make the lease one of another machine."""
    holder = replace(found.holder, host="other-machine", boot="other", **changes)
    Path(found.url).write_text(json.dumps(asdict(holder)))


def holding(url: Path, what: str = "alone") -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(url), what], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_second_instance_is_refused_at_once_with_who_where_and_since_when(tmp_path: Path):
    process = holding(tmp_path / "lease")
    began = time.monotonic()
    try:
        with pytest.raises(LeaseHeldError) as caught:
            acquirer(tmp_path / "lease").acquire()
    finally:
        process.kill()
        process.wait()

    assert time.monotonic() - began < 2
    assert f"held by pid {process.pid} on " in str(caught.value)
    assert "since 20" in str(caught.value)


def test_the_lease_of_a_killed_holder_is_taken_over_with_a_higher_token(tmp_path: Path):
    process = holding(tmp_path / "lease")
    process.send_signal(signal.SIGKILL)
    process.wait()

    taken = acquirer(tmp_path / "lease").acquire()

    assert taken.holder.token == 2
    taken.release()


def test_the_lease_is_free_only_when_the_holders_children_are_dead_too(tmp_path: Path):
    process = holding(tmp_path / "lease", "child")
    process.send_signal(signal.SIGKILL)
    process.wait()
    began = time.monotonic()

    taken = acquirer(tmp_path / "lease").acquire()

    assert time.monotonic() - began > 0.5, "the child still held the lock"
    taken.release()


def test_a_pid_that_is_used_again_does_not_hold_a_lease(tmp_path: Path):
    held = acquirer(tmp_path / "lease").acquire()
    assert held.holder.is_alive

    assert not replace(held.holder, started="1.00").is_alive
    held.release()


def test_a_lease_that_was_released_is_free(tmp_path: Path):
    acquirer(tmp_path / "lease").acquire().release()

    assert acquirer(tmp_path / "lease").acquire().holder.token == 2


def test_a_fresh_lease_of_another_machine_is_refused_at_once(tmp_path: Path):
    first = acquirer(tmp_path / "lease").acquire()
    os.close(first.fd or 0)
    elsewhere(first)

    with pytest.raises(LeaseHeldError, match="other-machine"):
        replace(acquirer(tmp_path / "lease"), stale_seconds=60).acquire()


@pytest.mark.parametrize("hours", [-5, 5])
def test_renewals_count_more_than_a_clock_that_jumped(tmp_path: Path, hours: int):
    first = acquirer(tmp_path / "lease").acquire()
    os.close(first.fd or 0)
    moment = (datetime.now(timezone.utc) + timedelta(hours=hours)).isoformat()
    beats, done = itertools.count(1), threading.Event()

    def renew() -> None:
        while not done.wait(0.02):
            elsewhere(first, beat_at=moment, beat=next(beats))

    elsewhere(first, beat_at=moment)
    thread = threading.Thread(target=renew)
    thread.start()
    try:
        with pytest.raises(LeaseHeldError, match="other-machine"):
            replace(acquirer(tmp_path / "lease"), stale_seconds=30).acquire()
    finally:
        done.set()
        thread.join()


def test_a_lease_that_is_not_renewed_is_taken_over_and_its_holder_notices(tmp_path: Path):
    first = acquirer(tmp_path / "lease").acquire()
    os.close(first.fd or 0)
    long_ago = (datetime.now(timezone.utc) - timedelta(minutes=5)).isoformat()
    elsewhere(first, beat_at=long_ago)

    second = acquirer(tmp_path / "lease").acquire()

    assert second.holder.token == 2
    with pytest.raises(LeaseLostError, match="taken over by pid"):
        first.renew()
    with pytest.raises(LeaseLostError):
        lease.must_hold(first.url, first.holder.token)
    lease.must_hold(second.url, second.holder.token)


def test_a_paused_holder_that_writes_over_the_new_one_does_not_win(tmp_path: Path):
    first = acquirer(tmp_path / "lease").acquire()
    os.close(first.fd or 0)
    elsewhere(first, beat_at=(datetime.now(timezone.utc) - timedelta(minutes=5)).isoformat())
    second = acquirer(tmp_path / "lease").acquire()

    elsewhere(first)  # it was paused while it renewed the lease
    second.renew()

    with pytest.raises(LeaseLostError):
        lease.must_hold(first.url, first.holder.token)


def test_of_many_that_acquire_a_dead_lease_at_once_one_gets_it(tmp_path: Path):
    url = f"file://{tmp_path}/lease"
    got: list[Lease] = []
    refused: list[LeaseHeldError] = []

    def acquire() -> None:
        try:
            got.append(acquirer(url).acquire())
        except LeaseHeldError as error:
            refused.append(error)

    threads = [threading.Thread(target=acquire) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (len(got), len(refused)) == (1, 7)


def test_a_lease_that_cannot_be_read_is_not_guessed_at(tmp_path: Path):
    (tmp_path / "lease").write_text("{")

    with pytest.raises(LeaseHeldError, match="cannot be read"):
        acquirer(tmp_path / "lease").acquire()
