"""What it costs that every batch is on the disk before it counts: the same pipeline, with fsync and without."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from penstock import jars
from penstock.connectors.kafka import create_topics
from penstock.feeds import FEEDS
from penstock.feeds.kafka import send
from penstock.services import KafkaBroker
from penstock.services.kafka import free_port

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
_ROWS = 10_000
_BATCHES = 40
_WARM = 12
_TEXT = """
name: copy
sources:
  trades:
    kafka: {{servers: "{servers}", topics: [trades], start: earliest, records_per_trigger: {rows}}}
    json: CreatedTime timestamp, Type string, Amount int, BrokerCode string
    bad_records: drop
sinks:
  out:
    from: trades
    trigger: 1 second
    to:
      - files: {{path: lake, format: parquet}}
      - delta: {{path: delta}}
"""
# Python runs this file in every process that finds it on its path.
_WITHOUT = "import os\nos.fsync = lambda _: None\n"


def main() -> list[str]:
    """Measure and print; return missed goals."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        broker = KafkaBroker(Path(folder) / "kafka", jars.paths(["broker"]), free_port())
        servers = broker.start(lambda _: None)
        try:
            return _compare(servers, Path(folder))
        finally:
            broker.stop()


def _compare(servers: str, folder: Path) -> list[str]:
    create_topics(servers, ("trades",))
    # More than is read, so that every batch is full.
    send(servers, "trades", itertools.islice(FEEDS["trades"](1), _ROWS * (_BATCHES + 20)))
    patch = folder / "patch"
    patch.mkdir()
    (patch / "sitecustomize.py").write_text(_WITHOUT, encoding="utf-8")
    seconds: dict[str, list[float]] = {"durable": [], "without fsync": []}
    for number in range(ROUNDS):
        for name in [*seconds][number % 2 :] + [*seconds][: number % 2]:
            seconds[name].append(_run(servers, folder / "run", patch if name == "without fsync" else None))
    print(f"durability: {_ROWS:,} rows a second to files and Delta, {ROUNDS} rounds of {_BATCHES - _WARM} batches")
    for name, found in seconds.items():
        print(f"  {name:<15} {statistics.median(found) * 1000:5.0f} ms a batch")
    extra = statistics.median(own - bare for own, bare in zip(*seconds.values(), strict=True))
    of_batch = extra / statistics.median(seconds["without fsync"])
    print(f"  fsync costs {extra * 1000:.0f} ms a batch: {of_batch:.1%} of it (goal: 5 %), {extra:.1%} of the trigger")
    return [] if of_batch < 0.05 else [f"fsync costs {of_batch:.1%} of a batch"]


def _run(servers: str, place: Path, patch: Path | None) -> float:
    """The median time of a batch after the warm-up."""
    place.mkdir()
    (place / "copy.yaml").write_text(_TEXT.format(servers=servers, rows=_ROWS), encoding="utf-8")
    command = [sys.executable, "-m", "penstock", "run", str(place / "copy.yaml")]
    paths = [str(patch)] if patch else []
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")])}
    batches: list[float] = []
    pipes = {"stderr": subprocess.PIPE, "stdout": subprocess.DEVNULL}
    with subprocess.Popen(command, text=True, env=environment, **pipes) as run:
        for line in run.stderr or ():
            batch = re.search(r"rows/s, ([\d.]+) s", line)
            if batch:
                batches.append(float(batch[1]))
            if len(batches) == _BATCHES:
                run.terminate()
    if len(batches) < _BATCHES:
        sys.exit(f"{' '.join(command)} ended after {len(batches)} batches")
    shutil.rmtree(place)
    return statistics.median(batches[_WARM:_BATCHES])


if __name__ == "__main__":
    sys.exit(bool(main()))
