"""How fast `penstock feed` is: synthetic records of several kinds from one process into a local broker."""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from penstock import jars
from penstock.connectors.kafka import create_topics
from penstock.services import KafkaBroker
from penstock.services.kafka import free_port

WANTED = 100_000
RECORDS = int(os.environ.get("BENCH_RECORDS", "1000000"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
DISORDER = ("--late", "5%", "--shuffle", "100", "--duplicate", "1%", "--corrupt", "1%", "--keys", "1000", "--skew", "1")
CALLS = {
    "trades": ["trades", "--to", "kafka:feed"],
    "trades in disorder": ["trades", "--to", "kafka:feed", *DISORDER],
    "invoices": ["invoices", "--to", "kafka:feed"],
    "ads": ["ads", "--to", "kafka:feed", "--to", "kafka:feed-clicks"],
}


def main() -> list[str]:
    """Records per second that the broker acknowledged, including the flush; the median of several rounds."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        broker = KafkaBroker(Path(folder) / "kafka", jars.paths(["broker"]), free_port())
        servers = broker.start(lambda _: None)
        try:
            create_topics(servers, ("feed", "feed-clicks"))
            return _measure(servers)
        finally:
            broker.stop()


def _measure(servers: str) -> list[str]:
    print(f"feed: {RECORDS:,} records, {ROUNDS} rounds, one process, a broker on the same machine")
    # A warm-up: a newly started broker compiles its code first.
    _rate([*CALLS["trades"], "--servers", servers, "--count", str(RECORDS // 2)])
    rates: dict[str, list[int]] = {name: [] for name in CALLS}
    for _ in range(ROUNDS):
        for name, call in CALLS.items():
            rates[name].append(_rate([*call, "--servers", servers, "--count", str(RECORDS)]))
    for name, found in rates.items():
        print(f"  {name:<20} {statistics.median(found):>9,.0f} records/s (lowest {min(found):,})")
    middle = statistics.median(rates["trades"])
    print(f"  (goal: {WANTED:,} trades/s)")
    return [] if middle >= WANTED else [f"feed sent {middle:,.0f} trades a second"]


def _rate(call: list[str]) -> int:
    done = subprocess.run([sys.executable, "-m", "penstock", "feed", *call], check=True, capture_output=True, text=True)
    found = re.search(r"\(([\d,]+) records/s", done.stdout)
    if found is None:
        sys.exit(f"penstock feed {' '.join(call)} failed:\n{done.stdout}{done.stderr}")
    return int(found[1].replace(",", ""))
