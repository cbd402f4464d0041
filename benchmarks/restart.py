"""From kill -9 of a driver to its next committed batch: Penstock against a bare script in a shell loop."""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from penstock import jars
from penstock.connectors.kafka import create_topics
from penstock.services import KafkaBroker
from penstock.services.kafka import free_port

HERE = Path(__file__).parent
KILLS = int(os.environ.get("BENCH_KILLS", "5"))
RECORDS = 500_000
_MOST_SECONDS = 180.0

FILE = """
name: copy
restart: {{limit: 1000}}
spark: {{spark.driver.memory: 1g}}
sources:
  all: {{kafka: {{servers: "{servers}", topics: [from], start: earliest, records_per_trigger: 200}}, value: string}}
sinks:
  out: {{from: all, kafka: {{servers: "{servers}", topic: to-ours, value_column: value}}}}
"""


def main() -> list[str]:
    """Measure and print; return missed goals."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name:
        folder = Path(name)
        broker = KafkaBroker(folder / "kafka", jars.paths(["broker"]), free_port())
        servers = broker.start(lambda _: None)
        try:
            return _compare(servers, folder)
        finally:
            broker.stop()


def _compare(servers: str, folder: Path) -> list[str]:
    from penstock.feeds.kafka import send
    from penstock.feeds.records import Record

    create_topics(servers, ("from", "to-ours", "to-theirs"))
    # More than the whole run reads, so there is always a next batch.
    send(servers, "from", (Record(b"", str(number).encode()) for number in range(RECORDS)))
    seconds: dict[str, list[float]] = {"penstock": [], "bare": []}
    for _ in range(KILLS):
        # Alternating, so that both find the machine in the same state.
        with _penstock(servers, folder) as (process, commits):
            seconds["penstock"].append(_kill(process, commits, lambda each: "penstock.driver" in each.cmdline()))
        with _bare(servers, folder) as (process, commits):
            seconds["bare"].append(_kill(process, commits, lambda each: "bare_copy.py" in " ".join(each.cmdline())))
    middle = {name: statistics.median(found) for name, found in seconds.items()}
    ratio = statistics.median(ours / bare for ours, bare in zip(seconds["penstock"], seconds["bare"], strict=True))
    print(f"restart after kill -9 to the next committed batch, {KILLS} kills each:")
    print(f"  penstock {middle['penstock']:.1f} s, a bare script in a shell loop {middle['bare']:.1f} s")
    print(f"  ratio {ratio:.2f} (goal: at most 1.1)")
    return [f"a restart takes {ratio:.2f} times as long as a bare script's"] if ratio > 1.1 else []


@contextmanager
def _penstock(servers: str, folder: Path) -> Iterator[tuple[psutil.Process, Path]]:
    (folder / "copy.yaml").write_text(FILE.format(servers=servers))
    command = [sys.executable, "-m", "penstock", "run", str(folder / "copy.yaml")]
    with _running(command) as process:
        yield process, folder / ".penstock" / "copy" / "checkpoints" / "out" / "commits"


@contextmanager
def _bare(servers: str, folder: Path) -> Iterator[tuple[psutil.Process, Path]]:
    connector = ",".join(str(path) for path in jars.paths(["kafka"]))
    script = [sys.executable, HERE / "bare_copy.py", servers, "from", "to-theirs", folder / "bare", connector]
    loop = "while true; do " + " ".join(f"'{part}'" for part in script) + "; done"
    with _running(["bash", "-c", loop]) as process:
        yield process, folder / "bare" / "commits"


@contextmanager
def _running(command: list[str]) -> Iterator[psutil.Process]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        yield psutil.Process(process.pid)
    finally:
        for each in [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]:
            with _gone():
                each.kill()
        process.wait()


@contextmanager
def _gone() -> Iterator[None]:
    try:
        yield
    except psutil.NoSuchProcess:
        return


def _kill(process: psutil.Process, commits: Path, is_driver: Callable[[psutil.Process], bool]) -> float:
    """Kill the driver and its JVM after three committed batches; return the seconds to its next commit."""
    first = _last(commits)
    _until(lambda: _last(commits) >= first + 3)
    driver = next(each for each in process.children(recursive=True) if is_driver(each))
    victims = [driver, *driver.children(recursive=True)]
    for each in victims:
        with _gone():
            os.kill(each.pid, signal.SIGKILL)
    began, before = time.perf_counter(), _last(commits)
    _until(lambda: _last(commits) > before)
    return time.perf_counter() - began


def _last(commits: Path) -> int:
    names = [each.name for each in commits.iterdir()] if commits.is_dir() else []
    return max((int(name) for name in names if name.isdigit()), default=-1)


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _MOST_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            sys.exit("a batch that was waited for did not come")
        time.sleep(0.01)


if __name__ == "__main__":
    sys.exit(bool(main()))
