"""The cost of the page with twenty viewers of a running pipeline, and the latency of Explore."""

from __future__ import annotations

import http.client
import json
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import Producer

from penstock import jars
from penstock.connectors.kafka import create_topics
from penstock.services import KafkaBroker
from penstock.services.kafka import free_port

VIEWERS, SECONDS, RECORDS = 20, 20, 31
MOST_MEGABYTES, MOST_SHARE, MOST_SECONDS = 150, 0.02, 1.0
PIPELINE = """
name: seen
sources:
  numbers: {{kafka: {{servers: "{servers}", topics: [numbers]}}, json: "n int, sent double"}}
sinks:
  out: {{from: numbers, memory: {{}}}}
"""


def main() -> None:
    """Run as a separate process, with its own broker; exit 1 if a goal is missed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        kafka = KafkaBroker(folder / "kafka", jars.fetch([KafkaBroker.jars]), free_port())
        servers = kafka.start(lambda _: None)
        try:
            create_topics(servers, ("numbers",))
            (folder / "seen.yaml").write_text(PIPELINE.format(servers=servers))
            missed = measure(folder, Producer({"bootstrap.servers": servers, "linger.ms": 0}))
        finally:
            kafka.stop()
    sys.exit(missed)


def measure(folder: Path, producer: Producer) -> bool:
    """Measure and print both."""
    output = folder / "output"
    command = [sys.executable, "-m", "penstock", "run", "seen.yaml", "--page-port", "0"]
    with output.open("wb") as log, subprocess.Popen(command, cwd=folder, stderr=log, stdout=log) as running:
        try:
            wait_for(lambda: send(producer, 0) and "batch" in output.read_text())
            ((address, file),) = re.findall(r"page: (http.*/) \(the token is in (.*)\)", output.read_text())
            link = f"{address}#token={Path(file).read_text()}"
            share, megabytes = cost(link, running.pid, producer)
            seconds = latency(link, producer)
        finally:
            running.terminate()
    print(f"page: {VIEWERS} viewers use {share:.2%} of the machine's CPUs (at most {MOST_SHARE:.0%})")
    print(f"page: the supervisor with {VIEWERS} viewers uses {megabytes:.0f} MB (at most {MOST_MEGABYTES})")
    print(f"explore, from sent to shown: median {seconds:.2f} s (at most {MOST_SECONDS:.0f})")
    return share > MOST_SHARE or megabytes > MOST_MEGABYTES or seconds > MOST_SECONDS


def cost(link: str, pid: int, producer: Producer) -> tuple[float, float]:
    """The CPU share that viewers add to the supervisor while batches run, and its megabytes."""
    process = psutil.Process(pid)
    alone = busy(process, producer)
    ended = threading.Event()
    got: list[int] = []
    viewers = [threading.Thread(target=view, args=(link, ended, got), daemon=True) for _ in range(VIEWERS)]
    for viewer in viewers:
        viewer.start()
    wait_for(lambda: len(got) >= VIEWERS)
    with_viewers = busy(process, producer)
    megabytes = process.memory_info().rss / 1e6
    ended.set()
    return with_viewers - alone, megabytes


def busy(process: psutil.Process, producer: Producer) -> float:
    """The CPU share of a process while records keep arriving."""
    before, began = sum(process.cpu_times()[:2]), time.monotonic()
    while time.monotonic() - began < SECONDS:
        send(producer, 0)
        time.sleep(0.05)
    spent, took = sum(process.cpu_times()[:2]) - before, time.monotonic() - began
    return spent / took / psutil.cpu_count()


def view(link: str, ended: threading.Event, got: list[int]) -> None:
    """One viewer of the pipeline's page."""
    answer = request(link, "GET", "/api/stream?pipeline=seen")
    got.append(answer.status)
    while not ended.is_set():
        answer.readline()


def latency(link: str, producer: Producer) -> float:
    """The median seconds from sending a record until its row reaches a viewer."""
    csrf = json.loads(request(link, "GET", "/api/session").read())["csrf"]
    body = json.dumps({"pipeline": "seen", "step": "numbers"})
    number = json.loads(request(link, "POST", "/api/explore", body, csrf).read())["id"]
    answer = request(link, "GET", f"/api/explore/{number}")
    took: list[float] = []
    looking = threading.Event()

    def wait_for_query() -> None:
        # It starts at the end of the topic as of its query's start.
        while not looking.wait(0.5):
            send(producer, 0)

    threading.Thread(target=wait_for_query, daemon=True).start()
    read_until(answer, "rows")
    looking.set()
    while len(took) < RECORDS:
        sent = send(producer, len(took) + 1)
        rows: list[Any] = []
        while sent not in rows:
            rows = [row[1] for row in read_until(answer, "rows")["rows"]]
        took.append(time.time() - sent)
    # The first ones are a warm-up.
    return statistics.median(took[10:])


def read_until(answer: http.client.HTTPResponse, event: str) -> dict[str, Any]:
    """The data of the next event of a kind."""
    kind = ""
    while True:
        line = answer.readline().decode().rstrip("\n")
        if line.startswith("event: "):
            kind = line[7:]
        elif line.startswith("data: "):
            data: dict[str, Any] = json.loads(line[6:])
            if kind in ("error", "end"):
                raise SystemExit(f"explore ended: {data}")
            if kind == event:
                return data


def send(producer: Producer, number: int) -> float:
    """Send one record with its send time."""
    now = time.time()
    producer.produce("numbers", json.dumps({"n": number, "sent": now}).encode())
    producer.flush(10)
    return now


def request(link: str, method: str, path: str, body: str = "", csrf: str = "") -> http.client.HTTPResponse:
    """Send a request like the page's."""
    address, _, token = link.partition("/#token=")
    host = address.removeprefix("http://")
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json", "x-penstock-csrf": csrf}
    connection = http.client.HTTPConnection(host, timeout=180)
    connection.request(method, path, body or None, headers)
    return connection.getresponse()


def wait_for(condition: Callable[[], object]) -> None:
    """Wait up to two minutes for a condition."""
    deadline = time.monotonic() + 120
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit("waited in vain")
        time.sleep(0.1)


if __name__ == "__main__":
    main()
