"""make demo: a real Kafka and a real Cassandra, made-up trades, a pipeline that is killed, and stores that agree.

Everything that happens here is a command that you can type; each one is printed before it runs.
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
from pathlib import Path
from tempfile import mkdtemp

import psutil
from confluent_kafka import Consumer, TopicPartition

TRADES = int(os.environ.get("DEMO_TRADES", "25000"))
RATE = int(os.environ.get("DEMO_RATE", "1000"))
PENSTOCK = [sys.executable, "-m", "penstock"]
HERE = Path(__file__).parent


def main() -> None:
    """The demo, from services up to services down."""
    began = time.monotonic()
    work = Path(mkdtemp(prefix="penstock-demo-"))
    environment = {**os.environ, "PENSTOCK_DEV": str(work / "dev"), "PYTHONUNBUFFERED": "1"}
    for file in ("lambda.yaml", "totals.py"):
        shutil.copy(HERE / "lambda" / file, work)
    try:
        title("1. A real Kafka broker and a real Cassandra on this machine")
        kafka, cassandra = run(["dev", "up", "kafka", "cassandra"], environment, capture=True).split()
        say(f"kafka {kafka}, cassandra {cassandra}")
        environment["CASSANDRA_HOSTS"] = cassandra

        title(f"2. {TRADES:,} made-up trades flow into the topic 'trades', {RATE:,} a second")
        feed = start(
            ["feed", "trades", "--to", "kafka:trades", "--count", str(TRADES), "--rate", str(RATE)], environment
        )

        title("3. One read: every trade into a Delta table, sums by broker into Cassandra; a line per batch")
        pipeline = start(["run", str(work / "lambda.yaml")], environment)
        wait_for(lambda: written(work) >= 2, "the first batches")

        title("4. The power goes: supervisor, driver and JVM are killed with SIGKILL in the middle")
        kill(pipeline)
        say(f"killed process {pipeline.pid} and its children; the trades keep coming")

        title("5. It starts again and goes on from its checkpoint")
        pipeline = start(["run", str(work / "lambda.yaml")], environment)
        feed.wait()
        wait_for(lambda: served(cassandra) == fed(kafka), "the totals to catch up with the trades")
        pipeline.send_signal(signal.SIGINT)
        pipeline.wait()

        title("6. Nothing lost, nothing counted twice")
        say(f"{'':<24}{'bought':>14}{'sold':>14}")
        for where, (bought, sold) in {
            "in the topic": fed(kafka),
            "in Cassandra": served(cassandra),
            "in the Delta table": kept(work, environment),
        }.items():
            say(f"{where:<24}{bought:>14,}{sold:>14,}")
    finally:
        run(["dev", "down"], environment)
        shutil.rmtree(work, ignore_errors=True)
    say(f"\nThat took {time.monotonic() - began:.0f} seconds. The file that did it: examples/lambda/lambda.yaml")
    say("Next: .venv/bin/penstock init demo && cd demo && ../.venv/bin/penstock run    (README.md has the rest)")


def title(text: str) -> None:
    """A heading."""
    say(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n{text}")


def say(text: str) -> None:
    """A line for the viewer."""
    print(text, flush=True)


def run(arguments: list[str], environment: dict[str, str], *, capture: bool = False) -> str:
    """One command to its end."""
    say(f"$ penstock {' '.join(arguments)}")
    done = subprocess.run([*PENSTOCK, *arguments], env=environment, check=True, text=True, stdout=subprocess.PIPE)
    if not capture:
        sys.stdout.write(done.stdout)
    return done.stdout


def start(arguments: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """A command that goes on in the background, in a process group of its own."""
    say(f"$ penstock {' '.join(arguments)} &")
    return subprocess.Popen([*PENSTOCK, *arguments], env=environment, start_new_session=True)


def kill(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL for all of it: the supervisor, the driver and its JVM."""
    whole = psutil.Process(process.pid)
    for each in [whole, *whole.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.kill()
    process.wait()


def wait_for(condition: object, what: str, most_seconds: float = 120) -> None:
    """Until a condition holds; an error that says what was waited for otherwise."""
    deadline = time.monotonic() + most_seconds
    pause = threading.Event()
    while not condition():  # type: ignore[operator]
        if time.monotonic() > deadline:
            sys.exit(f"waited {most_seconds:.0f} s for {what} in vain")
        pause.wait(0.5)


def written(work: Path) -> int:
    """How many batches the Delta table has."""
    return len(list((work / "lake" / "trades" / "_delta_log").glob("*.json"))) - 1


def served(address: str) -> tuple[int, int]:
    """Bought and sold over all brokers, as Cassandra has them."""
    from penstock import cql

    session = cql.connect(address)
    try:
        (found,) = session.execute("SELECT sum(bought), sum(sold) FROM market.recent_totals")
        return found[0] or 0, found[1] or 0
    finally:
        session.cluster.shutdown()


def kept(work: Path, environment: dict[str, str]) -> tuple[int, int]:
    """Bought and sold over all brokers, as the lake has them."""
    say("$ python totals.py all")
    command = [sys.executable, str(work / "totals.py"), "all"]
    said = subprocess.run(command, env=environment, check=True, text=True, stdout=subprocess.PIPE).stdout
    lines = [line.split() for line in said.splitlines()]
    return sum(int(each[2]) for each in lines), sum(int(each[4]) for each in lines)


def fed(servers: str) -> tuple[int, int]:
    """Bought and sold over all trades, added up without Spark."""
    sums: dict[str, int] = defaultdict(int)
    for trade in records(servers, "trades"):
        sums[trade["Type"]] += trade["Amount"]
    return sums["BUY"], sums["SELL"]


def records(servers: str, topic: str) -> list[dict[str, object]]:
    """Everything in a topic, in the order of each partition."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "demo", "enable.auto.commit": False, "log_level": 0})
    try:
        known = consumer.list_topics(topic, timeout=10).topics[topic].partitions
        ends = {
            number: consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=10)[1] for number in known
        }
        consumer.assign([TopicPartition(topic, number, 0) for number, end in ends.items() if end])
        found: list[dict[str, object]] = []
        while len(found) < sum(ends.values()):
            found += [
                json.loads(message.value()) for message in consumer.consume(5000, timeout=1) if not message.error()
            ]
        return found
    finally:
        consumer.close()


if __name__ == "__main__":
    main()
