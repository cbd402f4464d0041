"""Two starts at once, over every kind of storage, while holders are stopped, killed, or have another clock: one wins.

12 rounds in an ordinary run, 200 with `make soak`; FAULT_SEED repeats a round that failed.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.services.command import penstock, started, until

#: Takes the lease, and with it the marker `inside` that only one process may have. It writes what it does to a file,
#: and obeys the lines that it is sent: `check` (still ours?), `leave`.
INSTANCE = """
import os, select, socket, subprocess, sys, threading, time
from datetime import datetime, timedelta
from pathlib import Path

import fsspec
from fsspec.implementations.local import LocalFileSystem

from penstock.storage import lease

url, folder, said, host, hours = sys.argv[1:]


class Bucket(LocalFileSystem):
    protocol = ("bucket",)

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path.removeprefix("bucket://"))

    def pipe_file(self, path, value):
        # In one step, as an object store does.
        part = Path(f"{self._strip_protocol(path)}.part-{os.getpid()}")
        part.write_bytes(value)
        part.replace(self._strip_protocol(path))


class Clock(datetime):
    @classmethod
    def now(cls, zone=None):
        return datetime.now(zone) + timedelta(hours=float(hours))


def say(text):
    with open(said, "a") as file:
        file.write(text + "\\n")


fsspec.register_implementation("bucket", Bucket)
lease.datetime = Clock
inside = Path(folder, "inside")

if host.startswith("driver"):
    # Renews the lease when its supervisor does not; without a supervisor it drains, and then releases the lease.
    from penstock.driver.heartbeat import LeaseKeeper

    keeper = LeaseKeeper(url, int(host.removeprefix("driver")))
    while not select.select([sys.stdin], [], [], 0.1)[0]:
        keeper.renew(time.monotonic(), at_once=False)
    for _ in range(8):
        keeper.renew(time.monotonic(), at_once=True)
        time.sleep(0.1)
    inside.unlink()
    lease.Lease(url, lease.read(url)).release()
    sys.exit()

if host:
    socket.gethostname = lambda: host
acquirer = lease.LeaseAcquirer(url, lambda text: None, leave_seconds=5, renew_seconds=2.0, stale_seconds=30.0)
try:
    held = acquirer.acquire()
except lease.LeaseHeldError as error:
    say(f"refused {error}")
    sys.exit(1)
os.close(os.open(inside, os.O_CREAT | os.O_EXCL))
command = [sys.executable, __file__, url, folder, said, f"driver{held.holder.token}", hours]
driver = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[held.fd] if held.fd else [])
say(f"held {held.holder.token}")


def renew():
    while True:
        time.sleep(1.0)
        held.renew()


threading.Thread(target=renew, daemon=True).start()
for line in sys.stdin:
    lease.must_hold(url, held.holder.token)
    say("checked")
    if line == "leave\\n":
        break
driver.kill()
driver.wait()
inside.unlink()
held.release()
say("left")
"""

#: How the storage is given, and whether the processes share a kernel lock: `containers` have temporary folders of their
#: own, `machines` also names of their own.
KINDS = ("path", "file", "bucket", "containers", "machines")
FAULTS = ("none", "stop", "kill", "clock")


class Instance:
    """One process that wants the lease."""

    count = 0

    def __init__(self, folder: Path, kind: str, hours: int = 0) -> None:
        Instance.count += 1
        self.said = folder / f"said-{Instance.count}"
        self.said.touch()
        temporary = folder / f"tmp-{Instance.count if kind in ('containers', 'machines') else 0}"
        temporary.mkdir(exist_ok=True)
        host = f"machine-{Instance.count}" if kind == "machines" else ""
        url = {"path": "", "file": "file://"}.get(kind, "bucket://") + str(folder / "storage" / "lease")
        self.process = subprocess.Popen(
            [sys.executable, folder / "instance.py", url, folder, self.said, host, str(hours)],
            stdin=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": str(temporary)},
        )

    @property
    def lines(self) -> list[str]:
        return self.said.read_text().splitlines()

    @property
    def is_in(self) -> bool:
        return bool(self.lines) and self.lines[0].startswith("held")

    def decide(self) -> bool:
        """Whether it got the lease; waits until it knows."""
        until(lambda: bool(self.lines) or self.process.poll() is not None, "an answer")
        assert self.lines, "it ended without a word"
        return self.is_in

    def order(self, line: str) -> None:
        assert self.process.stdin is not None
        count = len(self.lines)
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        until(lambda: len(self.lines) > count or self.process.poll() is not None, f"what {line} does")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdin is not None
        self.process.stdin.close()


@contextmanager
def round_of(folder: Path, kind: str) -> Iterator[list[Instance]]:
    """A fresh storage; every process that a test adds ends with it."""
    folder.mkdir()
    (folder / "storage").mkdir()
    (folder / "instance.py").write_text(textwrap.dedent(INSTANCE))
    started: list[Instance] = []
    try:
        yield started
    finally:
        for each in started:
            each.kill()


def start_together(folder: Path, kind: str, hours: list[int]) -> tuple[Instance, list[Instance]]:
    """Start instances at once: the one that got the lease, and all of them."""
    instances = [Instance(folder, kind, each) for each in hours]
    winners = [each for each in instances if each.decide()]
    assert len(winners) == 1, [each.lines for each in instances]
    return winners[0], instances


def play(folder: Path, kind: str, fault: str, chance: random.Random) -> None:
    """One round: a double start, a fault of the winner, and what further starts make of it."""
    clocks = [0, 3, -3] if fault == "clock" else [0]
    with round_of(folder, kind) as everyone:
        first, together = start_together(folder, kind, [chance.choice(clocks) for _ in range(chance.choice([2, 3]))])
        everyone += together
        if fault == "stop":
            first.process.send_signal(signal.SIGSTOP)
        if fault == "kill":
            first.kill()
        second = Instance(folder, kind, chance.choice(clocks))
        everyone.append(second)

        if fault == "kill":
            # It waits for the driver, which has the marker until it is done: to take it twice would be an error.
            while kind == "machines" and not second.decide():
                # Another machine does not wait, and is refused until the driver has released the lease.
                second = Instance(folder, kind)
                everyone.append(second)
            assert second.decide(), second.lines
        else:
            assert not second.decide(), second.lines
            assert "is held by" in second.lines[0]
            first.process.send_signal(signal.SIGCONT)
            first.order("check")
            first.order("leave")
            first.process.wait()
            assert first.lines[1:] == ["checked", "checked", "left"], first.lines
            third, together = start_together(folder, kind, [0, 0])
            everyone += together
            assert third.lines[0] == "held 2"


def play_rounds(folder: Path, count: int) -> None:
    seed = int(os.environ.get("FAULT_SEED", random.randrange(2**31)))
    print(f"FAULT_SEED={seed}")
    chance = random.Random(seed)
    pairs = [(kind, fault) for kind in KINDS for fault in FAULTS]
    for number in range(count):
        kind, fault = chance.choice(pairs) if number >= len(pairs) else pairs[(number * 7 + seed) % len(pairs)]
        print(f"round {number}: {kind}, {fault}")
        play(folder / f"round-{number}", kind, fault, chance)


def test_of_12_double_starts_each_has_one_winner(tmp_path: Path):
    play_rounds(tmp_path, 12)


@pytest.mark.soak
def test_of_200_double_starts_each_has_one_winner(tmp_path: Path):
    play_rounds(tmp_path, 200)


PIPELINE = """
name: ticks
storage: file://{folder}/storage
sources:
  ticks: {{rate: {{rows_per_second: 20}}}}
sinks:
  out:
    from: ticks
    trigger: 200 milliseconds
    to:
      - files: {{path: out, format: parquet}}
"""


def test_two_runs_over_a_url_storage_with_a_stopped_and_then_a_killed_supervisor(tmp_path: Path):
    (tmp_path / "ticks.yaml").write_text(PIPELINE.format(folder=tmp_path))
    commits = tmp_path / "storage" / "ticks" / "checkpoints" / "out" / "commits"
    journal = tmp_path / "storage" / "ticks" / "ledger" / "out" / "batches"

    def last(folder: Path) -> int:
        return max((int(each.stem) for each in folder.glob("*") if each.stem.isdecimal()), default=-1)

    with started("run", "ticks.yaml", folder=tmp_path) as one, started("run", "ticks.yaml", folder=tmp_path) as two:
        until(lambda: one.process.poll() is not None or two.process.poll() is not None, "a refusal")
        loser, winner = (one, two) if one.process.poll() is not None else (two, one)
        assert "is held by" in loser.said
        until(lambda: last(commits) >= 3 or winner.process.poll() is not None, f"batches\n{winner.said}")
        driver = winner.driver

        winner.process.send_signal(signal.SIGSTOP)
        committed, journaled = last(commits), last(journal)
        refused = penstock("run", "ticks.yaml", folder=tmp_path)
        assert refused.returncode == 1
        assert "is held by" in refused.stderr
        until(lambda: last(commits) > committed + 10 and last(journal) > journaled + 10, "batches and their records")

        winner.process.kill()
        with started("run", "ticks.yaml", folder=tmp_path) as heir:
            reached = last(commits)
            until(lambda: last(commits) > reached + 3 or heir.process.poll() is not None, f"batches\n{heir.said}")
            assert not driver.is_running() or driver.status() == "zombie"
            stopped = penstock("stop", "ticks.yaml", folder=tmp_path)
            assert (stopped.returncode, stopped.stdout) == (0, "ticks has stopped\n"), stopped.stderr
            assert heir.process.wait(60) == 0, heir.said
