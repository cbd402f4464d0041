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
from penstock.storage.lease import HeldError, Lease, LostError, Taking

HOLD = """
import sys, subprocess, time
from penstock.storage.lease import Taking
lease = Taking(sys.argv[1], print).take()
if sys.argv[2] == "child":
    subprocess.Popen(["sleep", "2"], pass_fds=(lease.fd,), stdout=subprocess.DEVNULL)
print("held", flush=True)
time.sleep(600)
"""


def taking(url: Path | str) -> Taking:
    return Taking(str(url), lambda _: None, leave_seconds=5, beat_seconds=0.05, stale_seconds=0.5)


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
        with pytest.raises(HeldError) as caught:
            taking(tmp_path / "lease").take()
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

    taken = taking(tmp_path / "lease").take()

    assert taken.holder.token == 2
    taken.release()


def test_the_lease_is_free_only_when_the_holders_children_are_dead_too(tmp_path: Path):
    process = holding(tmp_path / "lease", "child")
    process.send_signal(signal.SIGKILL)
    process.wait()
    began = time.monotonic()

    taken = taking(tmp_path / "lease").take()

    assert time.monotonic() - began > 0.5, "the child still held the lock"
    taken.release()


def test_a_pid_that_is_used_again_does_not_hold_a_lease(tmp_path: Path):
    held = taking(tmp_path / "lease").take()
    assert held.holder.is_alive

    assert not replace(held.holder, started="1.00").is_alive
    held.release()


def test_a_lease_that_was_released_is_free(tmp_path: Path):
    taking(tmp_path / "lease").take().release()

    assert taking(tmp_path / "lease").take().holder.token == 2


def test_a_fresh_lease_of_another_machine_is_refused_at_once(tmp_path: Path):
    first = taking(tmp_path / "lease").take()
    os.close(first.fd or 0)
    elsewhere(first)

    with pytest.raises(HeldError, match="other-machine"):
        replace(taking(tmp_path / "lease"), stale_seconds=60).take()


@pytest.mark.parametrize("hours", [-5, 5])
def test_a_beat_that_moves_counts_more_than_a_clock_that_jumped(tmp_path: Path, hours: int):
    first = taking(tmp_path / "lease").take()
    os.close(first.fd or 0)
    moment = (datetime.now(timezone.utc) + timedelta(hours=hours)).isoformat()
    beats, done = itertools.count(1), threading.Event()

    def beat() -> None:
        while not done.wait(0.02):
            elsewhere(first, beat_at=moment, beat=next(beats))

    elsewhere(first, beat_at=moment)
    thread = threading.Thread(target=beat)
    thread.start()
    try:
        with pytest.raises(HeldError, match="other-machine"):
            replace(taking(tmp_path / "lease"), stale_seconds=30).take()
    finally:
        done.set()
        thread.join()


def test_a_beat_that_stands_still_is_taken_over_and_its_holder_notices(tmp_path: Path):
    first = taking(tmp_path / "lease").take()
    os.close(first.fd or 0)
    long_ago = (datetime.now(timezone.utc) - timedelta(minutes=5)).isoformat()
    elsewhere(first, beat_at=long_ago)

    second = taking(tmp_path / "lease").take()

    assert second.holder.token == 2
    with pytest.raises(LostError, match="taken over by pid"):
        first.beat()
    with pytest.raises(LostError):
        lease.must_hold(first.url, first.holder.token)
    lease.must_hold(second.url, second.holder.token)


def test_a_paused_holder_that_writes_over_the_new_one_does_not_win(tmp_path: Path):
    first = taking(tmp_path / "lease").take()
    os.close(first.fd or 0)
    elsewhere(first, beat_at=(datetime.now(timezone.utc) - timedelta(minutes=5)).isoformat())
    second = taking(tmp_path / "lease").take()

    elsewhere(first)  # its beat was under way when it was paused
    second.beat()

    with pytest.raises(LostError):
        lease.must_hold(first.url, first.holder.token)


def test_of_many_that_take_a_dead_lease_at_once_one_gets_it(tmp_path: Path):
    url = f"file://{tmp_path}/lease"
    got: list[Lease] = []
    refused: list[HeldError] = []

    def take() -> None:
        try:
            got.append(taking(url).take())
        except HeldError as error:
            refused.append(error)

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (len(got), len(refused)) == (1, 7)


def test_a_lease_that_cannot_be_read_is_not_guessed_at(tmp_path: Path):
    (tmp_path / "lease").write_text("{")

    with pytest.raises(HeldError, match="cannot be read"):
        taking(tmp_path / "lease").take()
