"""make demo: local Kafka and Cassandra, synthetic trades, a pipeline that is killed, and stores that agree.

Each step is a command that you can run yourself; it is printed before it runs. `make demo KEEP=1` keeps everything
running at the end, with trades flowing, until Ctrl-C.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

import psutil
from confluent_kafka import Consumer, TopicPartition

TRADES = int(os.environ.get("DEMO_TRADES", "25000"))
RATE = int(os.environ.get("DEMO_RATE", "1000"))
PORT = os.environ.get("DEMO_PORT", "0")
FEED = ["feed", "trades", "--to", "kafka:trades", "--late", "3%", "--corrupt", "0.5%"]
PENSTOCK = [sys.executable, "-m", "penstock"]
HERE = Path(__file__).parent


def main() -> None:
    """Run the demo."""
    started_at = time.monotonic()
    work = Path(mkdtemp(prefix="penstock-demo-"))
    environment = {**os.environ, "PENSTOCK_DEV": str(work / "dev"), "PYTHONUNBUFFERED": "1"}
    for file in ("lambda.yaml", "totals.py"):
        shutil.copy(HERE / "lambda" / file, work)
    pipeline: subprocess.Popen[bytes] | None = None
    try:
        title("1. Start a local Kafka broker and Cassandra")
        kafka, cassandra = run(["dev", "up", "kafka", "cassandra"], environment, capture=True).split()
        print_line(f"kafka {kafka}, cassandra {cassandra}")
        environment["CASSANDRA_HOSTS"] = cassandra

        title(
            f"2. {TRADES:,} synthetic trades flow into the topic 'trades', {RATE:,} per second; some late, some corrupt"
        )
        feed = start([*FEED, "--count", str(TRADES), "--rate", str(RATE)], environment)

        title("3. One read: every trade into a Delta table, sums by broker into Cassandra; the page shows it live")
        pipeline = start(["run", str(work / "lambda.yaml"), "--page-port", PORT], environment)
        wait_for(lambda: count_commits(work) >= 2, "the first batches")

        title("4. Kill the driver and its JVM with SIGKILL; the supervisor restarts it")
        print_line(f"killed processes {', '.join(str(pid) for pid in kill_driver(pipeline))}; the trades keep coming")
        feed.wait()
        wait_for(
            lambda: cassandra_totals(cassandra) == topic_totals(kafka).sums, "the totals to catch up with the trades"
        )
        wait_for(lambda: count_starts(work) >= 2, "the driver to be back")
        run(["status", "lambda", "--storage", str(work / ".penstock")], environment)

        title("5. Nothing lost, nothing counted twice")
        topic = topic_totals(kafka)
        print_line(f"{'':<24}{'bought':>14}{'sold':>14}")
        for where, (bought, sold) in {
            "in the topic": topic.sums,
            "in Cassandra": cassandra_totals(cassandra),
            "in the Delta table": delta_totals(work, environment),
        }.items():
            print_line(f"{where:<24}{bought:>14,}{sold:>14,}")
        print_line(f"{topic.corrupt} corrupt records were dropped and counted")
        if os.environ.get("KEEP"):
            keep_running(environment)
        pipeline.send_signal(signal.SIGINT)
        pipeline.wait()
    finally:
        stop(pipeline)
        run(["dev", "down"], environment)
        shutil.rmtree(work, ignore_errors=True)
    print_line(f"\nThat took {time.monotonic() - started_at:.0f} seconds. The pipeline: examples/lambda/lambda.yaml")
    print_line("Next: .venv/bin/penstock init demo && cd demo && ../.venv/bin/penstock run    (README.md has the rest)")


def title(text: str) -> None:
    """Print a heading."""
    print_line(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n{text}")


def print_line(text: str) -> None:
    """Print a line."""
    print(text, flush=True)


def run(arguments: list[str], environment: dict[str, str], *, capture: bool = False) -> str:
    """Run a command and wait for it."""
    print_line(f"$ penstock {' '.join(arguments)}")
    done = subprocess.run([*PENSTOCK, *arguments], env=environment, check=True, text=True, stdout=subprocess.PIPE)
    if not capture:
        sys.stdout.write(done.stdout)
    return done.stdout


def start(arguments: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """Start a command in the background, in its own process group."""
    print_line(f"$ penstock {' '.join(arguments)} &")
    return subprocess.Popen([*PENSTOCK, *arguments], env=environment, start_new_session=True)


def kill_driver(supervisor: subprocess.Popen[bytes]) -> list[int]:
    """Kill the driver and its JVM with SIGKILL."""
    victims = psutil.Process(supervisor.pid).children(recursive=True)
    for each in victims:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.kill()
    return [each.pid for each in victims]


def stop(process: subprocess.Popen[bytes] | None) -> None:
    """Stop the pipeline if it is still running."""
    if process is not None and process.poll() is None:
        process.send_signal(signal.SIGINT)
        process.wait()


def keep_running(environment: dict[str, str]) -> None:
    """Keep feeding trades until Ctrl-C."""
    title("6. Trades keep flowing: open the page above; press Ctrl-C to stop")
    feed = start([*FEED, "--for", "1h", "--rate", "100"], environment)
    with contextlib.suppress(KeyboardInterrupt):
        feed.wait()
    feed.terminate()
    feed.wait()


def wait_for(condition: object, what: str, timeout_seconds: float = 120) -> None:
    """Wait until a condition holds; exit with an error after the timeout."""
    deadline = time.monotonic() + timeout_seconds
    pause = threading.Event()
    while not condition():  # type: ignore[operator]
        if time.monotonic() > deadline:
            sys.exit(f"timed out after {timeout_seconds:.0f} s waiting for {what}")
        pause.wait(0.5)


def count_commits(work: Path) -> int:
    """How many batches the Delta table has."""
    return len(list((work / "lake" / "trades" / "_delta_log").glob("*.json"))) - 1


def count_starts(work: Path) -> int:
    """How often the queries were started, from the event log."""
    logs = (work / ".penstock" / "lambda" / "events").glob("*.jsonl")
    return sum(log.read_text(encoding="utf-8").count('"what": "started"') for log in logs)


def cassandra_totals(address: str) -> tuple[int, int]:
    """Bought and sold over all brokers, in Cassandra."""
    from penstock import cql

    session = cql.connect(address)
    try:
        (found,) = session.execute("SELECT sum(bought), sum(sold) FROM market.recent_totals")
        return found[0] or 0, found[1] or 0
    finally:
        session.cluster.shutdown()


def delta_totals(work: Path, environment: dict[str, str]) -> tuple[int, int]:
    """Bought and sold over all brokers, in the Delta table."""
    print_line("$ python totals.py all")
    command = [sys.executable, str(work / "totals.py"), "all"]
    output = subprocess.run(command, env=environment, check=True, text=True, stdout=subprocess.PIPE).stdout
    lines = [line.split() for line in output.splitlines()]
    return sum(int(each[2]) for each in lines), sum(int(each[4]) for each in lines)


@dataclass(frozen=True)
class TopicTotals:
    """The totals of the topic."""

    sums: tuple[int, int]
    corrupt: int


def topic_totals(servers: str) -> TopicTotals:
    """Bought and sold over all trades of the topic, computed without Spark."""
    sums: dict[str, int] = defaultdict(int)
    corrupt = 0
    for value in records(servers, "trades"):
        try:
            trade = json.loads(value)
        except ValueError:
            corrupt += 1
        else:
            sums[trade["Type"]] += trade["Amount"]
    return TopicTotals((sums["BUY"], sums["SELL"]), corrupt)


def records(servers: str, topic: str) -> list[bytes]:
    """All records of a topic, in the order of each partition."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "demo", "enable.auto.commit": False, "log_level": 0})
    try:
        known = consumer.list_topics(topic, timeout=10).topics[topic].partitions
        ends = {
            number: consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=10)[1] for number in known
        }
        consumer.assign([TopicPartition(topic, number, 0) for number, end in ends.items() if end])
        found: list[bytes] = []
        while len(found) < sum(ends.values()):
            found += [message.value() for message in consumer.consume(5000, timeout=1) if not message.error()]
        return found
    finally:
        consumer.close()


if __name__ == "__main__":
    main()
