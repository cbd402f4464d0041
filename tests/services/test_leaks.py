"""Secrets of a run at the noisiest log level, with failures provoked, are nowhere that anyone can look."""

from __future__ import annotations

import re
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from tests.services.command import penstock, started, until
from tests.services.fixtures import Kafka
from tests.services.secured import MARKED, SecuredBroker

from penstock.services.kafka import free_port

KEY_PASSWORD = "key-pässword-mark3r\"; it's"
WRONG_PASSWORD = "wr0ng-other-5d1c"

PIPELINE = """
name: leaky
restart: {{limit: 0}}
sources:
  rows:
    kafka:
      servers: "{mutual}"
      tls: {{ca: ca.pem, cert: client.pem, key: client.key, password: "${{file:key-password}}"}}
      topics: [{topic}]
      start: earliest
    value: string
steps:
  told: {{python: "teller:tell", reads: [rows]}}
sinks:
  out:
    from: told
    kafka:
      servers: "{hub}"
      tls: {{ca: ca.pem}}
      sasl: {{mechanism: plain, user: marked, password: "${{env:MARKED}}"}}
      topic: {target}
      value_column: value
spark:
  spark.driver.extraJavaOptions: -Dpenstock.log.level=trace
  spark.eventLog.enabled: true
  spark.eventLog.compress: false
  spark.eventLog.dir: {events}
  spark.ui.enabled: true
  spark.ui.port: {port}
"""

# A step that tells every secret that it knows, as a careless user's would.
TELLER = """
import os
from pyspark.sql.functions import udf


def tell(rows):
    @udf("string")
    def told(value):
        if value == "tell":
            raise ValueError("the password is " + os.environ["MARKED"] + " and not " + repr(os.environ["MARKED"]))
        return value

    return rows.select(told("value").alias("value"))
"""


class Processes:
    """Every command line that was seen while a run was under way."""

    def __init__(self) -> None:
        self.seen: set[bytes] = set()
        self._done = threading.Event()

    @contextmanager
    def watched(self) -> Iterator[Processes]:
        thread = threading.Thread(target=self._watch)
        thread.start()
        try:
            yield self
        finally:
            self._done.set()
            thread.join()

    def _watch(self) -> None:
        while not self._done.wait(0.1):
            for file in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    self.seen.add(file.read_bytes())
                except OSError:  # it ended while we looked
                    continue


@pytest.fixture
def folder(tmp_path: Path, secured: SecuredBroker) -> Path:
    """A pipeline's folder with its certificates, its secrets and its careless step."""
    project = tmp_path / "project"
    project.mkdir()
    (tmp_path / "spark-events").mkdir()
    authority = secured.broker.secured.authority
    for name in ("ca.pem", "client.pem"):
        (project / name).write_bytes((authority.folder / name).read_bytes())
    key = load_pem_private_key(authority.key("client").read_bytes(), None)
    hidden = BestAvailableEncryption(KEY_PASSWORD.encode())
    (project / "client.key").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, hidden))
    (project / "key-password").write_text(KEY_PASSWORD)
    for name in ("client.key", "key-password"):
        (project / name).chmod(0o600)
    (project / "teller.py").write_text(TELLER)
    return project


def fetched(port: int) -> str:
    """Every page of Spark's own server that there is, and what its API says."""
    base = f"http://127.0.0.1:{port}"
    pages = ["/jobs/", "/stages/", "/storage/", "/environment/", "/executors/", "/SQL/", "/StreamingQuery/"]
    text = "".join(urllib.request.urlopen(base + page, timeout=10).read().decode() for page in pages)
    plans = set(re.findall(r"/SQL/execution/\?id=\d+", text))
    (run,) = re.findall(r'"id" : "([^"]+)"', urllib.request.urlopen(f"{base}/api/v1/applications").read().decode())
    more = [*plans, f"/api/v1/applications/{run}/environment", f"/api/v1/applications/{run}/sql?details=true"]
    return text + "".join(urllib.request.urlopen(base + page, timeout=10).read().decode() for page in more)


def test_a_secret_is_in_no_file_no_log_no_page_and_no_process_list(secured, folder, tmp_path):
    kafka = Kafka(secured.address)
    topic, target, port = kafka.create(), kafka.create(), free_port()
    places = {"mutual": secured.at("mutual-tls"), "hub": secured.at("hub"), "topic": topic, "target": target}
    (folder / "leaky.yaml").write_text(PIPELINE.format(**places, events=tmp_path / "spark-events", port=port))
    kafka.send(topic, "first")
    processes = Processes()

    with processes.watched(), started("run", folder, "-v", folder=tmp_path, MARKED=MARKED) as run:
        until(lambda: "batch 0" in run.said or run.process.poll() is not None, f"the first batch\n{run.said}")
        assert kafka.values(target, 1) == ["first"], run.said
        pages = fetched(port)
        events = b"".join(file.read_bytes() for file in (tmp_path / "spark-events").rglob("events_*"))
        kafka.send(topic, "tell")
        until(lambda: run.process.poll() is not None, "the run to fail")
        said = run.said
    refused = penstock("run", folder, folder=tmp_path, MARKED=WRONG_PASSWORD)
    (tmp_path / "refused").write_text(refused.stdout + refused.stderr)

    assert run.process.returncode == 1
    assert "sink 'out': ValueError: the password is *** and not '***'" in said
    assert "Traceback" in said, "verbose shows tracebacks"
    assert refused.returncode == 1
    assert "refuses user 'marked': wrong user or password (PLAIN)" in refused.stderr
    secrets = markers(secured)
    assert b"SparkListenerJobEnd" in events
    assert found_in(pages.encode() + events, secrets) == []
    assert [line for line in processes.seen if found_in(line, secrets)] == []
    # Not Spark's event log after the step told: what a user's own code says, Spark writes there word for word.
    files = [file for file in tmp_path.rglob("*") if file.is_file() and "spark-events" not in file.parts]
    files = [file for file in files if file.name not in ("key-password", "client.key")]
    names = {file.name for file in files}
    assert {"driver.log", "refused", "offsets"} <= names | {file.parent.name for file in files}
    assert b"TRACE" in (folder / ".penstock/leaky/logs/driver.log").read_bytes()
    assert {str(file): found for file in files if (found := found_in(file.read_bytes(), secrets))} == {}


def markers(secured: SecuredBroker) -> list[bytes]:
    """The passwords, and a line out of the middle of the private key that one of them opens."""
    key = secured.broker.secured.authority.key("client").read_text().splitlines()
    return [
        MARKED.encode(),
        MARKED[:12].encode(),
        KEY_PASSWORD.encode(),
        b"mark3r",
        WRONG_PASSWORD.encode(),
        key[1].encode(),
    ]


def found_in(data: bytes, secrets: list[bytes]) -> list[bytes]:
    return [secret for secret in secrets if secret in data]
