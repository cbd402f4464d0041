"""make demo: a real Kafka and a real Cassandra, made-up trades, a pipeline that is killed, and stores that agree.

Everything that happens here is a command that you can type; each one is printed before it runs. `make demo KEEP=1`
leaves everything up at the end, with trades flowing, until Ctrl-C.
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
    """The demo, from services up to services down."""
    began = time.monotonic()
    work = Path(mkdtemp(prefix="penstock-demo-"))
    environment = {**os.environ, "PENSTOCK_DEV": str(work / "dev"), "PYTHONUNBUFFERED": "1"}
    for file in ("lambda.yaml", "totals.py"):
        shutil.copy(HERE / "lambda" / file, work)
    pipeline: subprocess.Popen[bytes] | None = None
    try:
        title("1. A real Kafka broker and a real Cassandra on this machine")
        kafka, cassandra = run(["dev", "up", "kafka", "cassandra"], environment, capture=True).split()
        say(f"kafka {kafka}, cassandra {cassandra}")
        environment["CASSANDRA_HOSTS"] = cassandra

        title(f"2. {TRADES:,} made-up trades flow into the topic 'trades', {RATE:,} a second; some late, some corrupt")
        feed = start([*FEED, "--count", str(TRADES), "--rate", str(RATE)], environment)

        title("3. One read: every trade into a Delta table, sums by broker into Cassandra; the page shows it live")
        pipeline = start(["run", str(work / "lambda.yaml"), "--page-port", PORT], environment)
        wait_for(lambda: written(work) >= 2, "the first batches")

        title("4. The driver is killed with SIGKILL, and its JVM with it; its supervisor is not impressed")
        say(f"killed processes {', '.join(str(pid) for pid in kill_driver(pipeline))}; the trades keep coming")
        feed.wait()
        wait_for(lambda: served(cassandra) == fed(kafka).sums, "the totals to catch up with the trades")
        wait_for(lambda: starts(work) >= 2, "the driver to be back")
        run(["status", "lambda", "--storage", str(work / ".penstock")], environment)

        title("5. Nothing lost, nothing counted twice")
        topic = fed(kafka)
        say(f"{'':<24}{'bought':>14}{'sold':>14}")
        for where, (bought, sold) in {
            "in the topic": topic.sums,
            "in Cassandra": served(cassandra),
            "in the Delta table": kept(work, environment),
        }.items():
            say(f"{where:<24}{bought:>14,}{sold:>14,}")
        say(f"{topic.corrupt} corrupt records were left out, and counted")
        if os.environ.get("KEEP"):
            stay(environment)
        pipeline.send_signal(signal.SIGINT)
        pipeline.wait()
    finally:
        end(pipeline)
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


def kill_driver(supervisor: subprocess.Popen[bytes]) -> list[int]:
    """SIGKILL for the driver and its JVM, all at once."""
    victims = psutil.Process(supervisor.pid).children(recursive=True)
    for each in victims:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.kill()
    return [each.pid for each in victims]


def end(process: subprocess.Popen[bytes] | None) -> None:
    """Stop the pipeline if something else has ended the demo."""
    if process is not None and process.poll() is None:
        process.send_signal(signal.SIGINT)
        process.wait()


def stay(environment: dict[str, str]) -> None:
    """Let trades flow until Ctrl-C."""
    title("6. It stays up, with trades flowing: open the page above; Ctrl-C ends")
    feed = start([*FEED, "--for", "1h", "--rate", "100"], environment)
    with contextlib.suppress(KeyboardInterrupt):
        feed.wait()
    feed.terminate()
    feed.wait()


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


def starts(work: Path) -> int:
    """How often the queries were started, by the event log."""
    logs = (work / ".penstock" / "lambda" / "events").glob("*.jsonl")
    return sum(log.read_text(encoding="utf-8").count('"what": "started"') for log in logs)


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


@dataclass(frozen=True)
class Fed:
    """What is in the topic."""

    sums: tuple[int, int]
    corrupt: int


def fed(servers: str) -> Fed:
    """Bought and sold over all trades, added up without Spark."""
    sums: dict[str, int] = defaultdict(int)
    corrupt = 0
    for value in records(servers, "trades"):
        try:
            trade = json.loads(value)
        except ValueError:
            corrupt += 1
        else:
            sums[trade["Type"]] += trade["Amount"]
    return Fed((sums["BUY"], sums["SELL"]), corrupt)


def records(servers: str, topic: str) -> list[bytes]:
    """Everything in a topic, in the order of each partition."""
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
