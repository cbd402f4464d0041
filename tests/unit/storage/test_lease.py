"""One writer per storage, on one machine and on several."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import fsspec
import pytest

from penstock.storage import lease
from penstock.storage.lease import Lease, LeaseAcquirer, LeaseHeldError, LeaseLostError, LeaseUnreadableError

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


def holding(url: Path | str, what: str = "alone") -> subprocess.Popen[str]:
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


def test_of_400_renewals_that_meet_a_release_none_leaves_an_unreadable_or_unreleased_lease(tmp_path: Path):
    url = str(tmp_path / "lease")
    for _ in range(400):
        held = acquirer(url).acquire()
        both = threading.Barrier(2)

        def renew(held: Lease = held, both: threading.Barrier = both) -> None:
            both.wait()
            held.renew()

        thread = threading.Thread(target=renew)
        thread.start()
        both.wait()
        held.release()
        thread.join()

        found = lease.read(url)
        assert found is not None
        assert found.released
    assert sorted(file.name for file in tmp_path.iterdir()) == ["lease", "lease.400", "lease.lock"]


def test_two_processes_that_renew_at_once_never_leave_half_a_lease(tmp_path: Path):
    held = acquirer(tmp_path / "lease").acquire()
    other = Lease(held.url, held.holder)

    def renew() -> None:
        for _ in range(200):
            other.renew()

    thread = threading.Thread(target=renew)
    thread.start()
    for _ in range(200):
        held.renew()
        assert lease.read(held.url) is not None
    thread.join()

    held.release()
    assert lease.read(held.url) == held.holder


DAMAGES = ["{", "[]", '"x"', "{}", '{"token": "7"}', "\x00" * 40]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_lease_is_replaced_by_the_next_renewal_of_its_holder(tmp_path: Path, damage: str):
    held = acquirer(tmp_path / "lease").acquire()
    Path(held.url).write_text(damage)

    held.renew()

    assert lease.read(held.url) == held.holder
    held.release()


@pytest.mark.parametrize("damage", DAMAGES)
def test_nobody_acquires_a_damaged_lease(tmp_path: Path, damage: str):
    (tmp_path / "lease").write_text(damage)

    with pytest.raises(LeaseUnreadableError, match="cannot be read"):
        acquirer(tmp_path / "lease").acquire()


def test_a_missing_lease_is_written_again(tmp_path: Path):
    held = acquirer(tmp_path / "lease").acquire()
    Path(held.url).unlink()
    lease.must_hold(held.url, held.holder.token)

    held.renew()

    assert lease.read(held.url) == held.holder
    held.release()


def test_a_lease_that_goes_missing_while_a_killed_run_ends_is_not_taken_for_another_start(tmp_path: Path):
    process = holding(tmp_path / "lease", "child")
    process.kill()
    process.wait()

    taken = replace(acquirer(tmp_path / "lease"), print_status=lambda _: (tmp_path / "lease").unlink()).acquire()

    assert taken.fd is not None
    taken.release()


def test_a_damaged_lease_that_another_has_claimed_is_left_alone(tmp_path: Path):
    held = acquirer(tmp_path / "lease").acquire()
    Path(held.url).write_text("{")
    Path(f"{held.url}.{held.holder.token + 1}").touch()

    with pytest.raises(LeaseUnreadableError):
        held.renew()
    held.release()
    assert Path(held.url).read_text() == "{"


def test_a_write_waits_for_a_damaged_lease_to_be_replaced(tmp_path: Path):
    held = acquirer(tmp_path / "lease").acquire()
    Path(held.url).write_text("{")
    timer = threading.Timer(0.2, held.renew)
    timer.start()

    lease.must_hold(held.url, held.holder.token)

    timer.join()
    held.release()


def test_a_damaged_lease_is_released_too(tmp_path: Path):
    held = acquirer(tmp_path / "lease").acquire()
    Path(held.url).write_text("{")

    held.release()

    assert acquirer(held.url).acquire().holder.token == 2


def test_a_lease_of_a_later_release_can_be_read(tmp_path: Path):
    held = acquirer(tmp_path / "lease").acquire()
    Path(held.url).write_text(json.dumps({**asdict(held.holder), "more": 1}))

    assert lease.read(held.url) == held.holder


def test_a_lease_of_release_0_1_is_taken_over_with_its_kernel_lock(tmp_path: Path):
    held = acquirer(tmp_path / "lease").acquire()
    os.close(held.fd or 0)
    old = asdict(held.holder)
    del old["lock"]
    Path(held.url).write_text(json.dumps({**old, "pid": 2**22 + 1}))

    assert acquirer(held.url).acquire().holder.token == 2


def test_deleting_the_lock_file_of_a_running_pipeline_lets_nobody_in(tmp_path: Path):
    held = acquirer(tmp_path / "lease").acquire()
    Path(f"{held.url}.lock").unlink()

    with pytest.raises(LeaseHeldError, match="is held by"):
        acquirer(held.url).acquire()


def test_a_url_of_this_machine_has_the_kernel_lock(tmp_path: Path):
    process = holding(f"file://{tmp_path}/lease", "child")
    with pytest.raises(LeaseHeldError, match=f"held by pid {process.pid}"):
        acquirer(f"file://{tmp_path}/lease").acquire()
    process.kill()
    process.wait()
    said: list[str] = []

    taken = replace(acquirer(f"file://{tmp_path}/lease"), print_status=said.append).acquire()

    assert [text.partition(" on ")[0] for text in said] == [
        f"waiting for the driver of a killed run to end (pid {process.pid}"
    ]
    assert (taken.fd is not None, taken.holder.token) == (True, 2)
    assert (tmp_path / "lease.lock").exists()


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A storage without a file system: its kernel locks are in the temporary folder of this machine."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield f"memory://{tmp_path}/lease"
    fsspec.filesystem("memory").store.clear()


def test_an_object_store_has_a_kernel_lock_on_this_machine(bucket: str):
    held = acquirer(bucket).acquire()
    with pytest.raises(LeaseHeldError, match="is held by"):
        acquirer(bucket).acquire()
    os.close(held.fd or 0)

    assert acquirer(bucket).acquire().holder.token == 2


def killed(held: Lease) -> Lease:
    """The same lease, as the driver of a killed supervisor has it: in another container, so without our kernel lock."""
    os.close(held.fd or 0)
    held.holder, held.fd = replace(held.holder, pid=2**22 + 1, lock="other:1"), None
    lease._write(held.url, held.holder, sync=False)
    return held


def test_without_a_lock_the_driver_of_a_killed_run_is_waited_for_until_it_releases_the_lease(bucket: str):
    orphan = killed(acquirer(bucket).acquire())
    drained, done = threading.Event(), threading.Event()

    def drain() -> None:
        while not drained.wait(0.05):
            orphan.renew()
        orphan.release()

    def acquire() -> None:
        taken.append(replace(acquirer(bucket), leave_seconds=0.2).acquire())
        done.set()

    taken: list[Lease] = []
    threads = [threading.Thread(target=drain), threading.Thread(target=acquire)]
    orphan.holder = replace(orphan.holder, leave_seconds=60.0)
    orphan.renew()
    for thread in threads:
        thread.start()
    assert not done.wait(1.0), "the driver still drains"
    drained.set()
    for thread in threads:
        thread.join(30)

    assert taken[0].holder.token == 2


def test_without_a_lock_a_killed_run_that_renews_no_more_is_waited_for_as_long_as_its_driver_may_last(bucket: str):
    orphan = killed(acquirer(bucket).acquire())
    orphan.holder = replace(orphan.holder, leave_seconds=1.0)
    orphan.renew()
    began = time.monotonic()

    taken = acquirer(bucket).acquire()

    assert time.monotonic() - began >= 1.5
    assert taken.holder.token == 2


def test_after_a_reboot_nobody_is_waited_for_on_a_disk_of_this_machine(tmp_path: Path):
    held = acquirer(tmp_path / "lease").acquire()
    os.close(held.fd or 0)
    Path(held.url).write_text(json.dumps(asdict(replace(held.holder, boot="the one before"))))

    assert LeaseAcquirer(held.url, pytest.fail).acquire().holder.token == 2


def test_after_a_reboot_a_disk_that_others_share_is_watched_first(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(lease, "_is_own_disk", lambda _: False)
    held = acquirer(tmp_path / "lease").acquire()
    os.close(held.fd or 0)
    Path(held.url).write_text(json.dumps(asdict(replace(held.holder, boot="the one before"))))

    with pytest.raises(LeaseHeldError, match="is held by"):
        acquirer(held.url).acquire()


def test_a_copied_storage_is_not_waited_for(tmp_path: Path):
    process = holding(tmp_path / "lease")
    process.kill()
    process.wait()
    (tmp_path / "copy").mkdir()
    shutil.copy(tmp_path / "lease", tmp_path / "copy")

    assert LeaseAcquirer(str(tmp_path / "copy/lease"), pytest.fail).acquire().holder.token == 2


def test_the_driver_of_a_killed_run_is_waited_for_although_its_lock_file_was_removed(tmp_path: Path):
    process = holding(tmp_path / "lease", "child")
    process.kill()
    process.wait()
    (tmp_path / "lease.lock").unlink()
    said: list[str] = []

    LeaseAcquirer(str(tmp_path / "lease"), said.append, renew_seconds=0.05, stale_seconds=0.5).acquire()

    assert "waiting for the driver of a killed run to end" in said[0]


def test_without_a_lock_a_supervisor_that_lives_is_not_waited_for(bucket: str):
    held = acquirer(bucket).acquire()
    os.close(held.fd or 0)
    held.holder = replace(held.holder, lock="other:1")
    held.renew()

    with pytest.raises(LeaseHeldError, match="is held by"):
        acquirer(bucket).acquire()


def test_a_temporary_folder_of_another_user_is_not_used_for_locks(bucket: str, tmp_path: Path, monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: 4711)

    assert acquirer(bucket).acquire().fd is None
