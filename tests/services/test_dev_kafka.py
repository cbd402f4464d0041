"""penstock dev with a real broker."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import monotonic

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.services.command import penstock

from penstock.services import KafkaBroker

CAPTURED = {"capture_output": True, "text": True, "check": False, "timeout": 120}
SECURED = """
sources:
  mutual:
    kafka:
      servers: ${KAFKA_MUTUAL_TLS}
      topics: [trades]
      tls: {ca: "${KAFKA_CA}", cert: "${KAFKA_CERT}", key: "${KAFKA_KEY}"}
  hub: {eventhubs: {connection: "${env:EVENTHUBS_CONNECTION}", hub: trades, tls: {ca: "${KAFKA_CA}"}}}
  scram:
    kafka:
      servers: ${KAFKA_SASL_SCRAM}
      topics: [trades]
      tls: {ca: "${KAFKA_CA}"}
      sasl: {mechanism: scram-sha-512, user: "${KAFKA_USER}", password: "${env:KAFKA_PASSWORD}"}
sinks:
  out: {from: mutual, kafka: {servers: "${KAFKA_TLS}", topic: trades}}
"""


@dataclass(frozen=True)
class Dev:
    """`penstock dev` in a folder of its own."""

    folder: Path

    def call(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "penstock", "dev", *words]
        environment = {**os.environ, "PENSTOCK_DEV": str(self.folder)}
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)

    def up(self, *words: str) -> str:
        done = self.call("up", *words)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def status(self) -> dict[str, object]:
        (found,) = json.loads(self.call("status", "kafka", "--json").stdout)
        return found


@pytest.fixture
def dev(tmp_path):
    """A folder with no broker yet, its name as awkward as a user's; whatever runs there is stopped at the end."""
    dev = Dev(tmp_path / "my dev, kept here")
    yield dev
    KafkaBroker(dev.folder / "kafka").stop()


@dataclass(frozen=True)
class Started:
    """A broker that two calls have started at once, in a folder whose last port another program has taken meanwhile."""

    dev: Dev
    taken: int
    printed: list[str]
    codes: list[int]


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    """One broker for all tests that leave it running."""
    dev = Dev(tmp_path_factory.mktemp("started") / "my dev, kept here")
    command = [sys.executable, "-m", "penstock", "dev", "up"]
    environment = {**os.environ, "PENSTOCK_DEV": str(dev.folder)}
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        (dev.folder / "kafka").mkdir(parents=True)
        (dev.folder / "kafka" / "port").write_text(str(taken))
        pair = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        printed = [process.communicate(timeout=120)[0].strip() for process in pair]
    yield Started(dev, taken, printed, [process.returncode for process in pair])
    KafkaBroker(dev.folder / "kafka").stop()


def exists(pid: object) -> bool:
    """Whether a process is there and not a zombie that nobody has collected yet."""
    asked = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return bool(asked.stdout.strip()) and not asked.stdout.startswith("Z")


def produce(address: str, topic: str, *values: str) -> None:
    producer = Producer({"bootstrap.servers": address})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(30) == 0


def consume(address: str, topic: str, count: int) -> list[str]:
    settings = {"bootstrap.servers": address, "group.id": "test", "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    found = [message.value().decode() for message in consumer.consume(count, timeout=30)]
    consumer.close()
    return sorted(found)


def create(address: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    for made in admin.create_topics([NewTopic(topic, 2, 1)]).values():
        made.result(timeout=30)


def test_two_calls_of_up_at_once_start_one_broker(started):
    address = started.dev.status()["address"]

    assert started.codes == [0, 0]
    assert started.printed == [address, address]


def test_a_last_port_that_is_taken_is_left_to_the_other_program(started):
    address = started.dev.status()["address"]

    assert address != f"127.0.0.1:{started.taken}"


def test_a_broker_carries_records_and_up_again_starts_nothing(started):
    found = started.dev.status()
    address = str(found["address"])
    create(address, "carried")
    produce(address, "carried", "a", "b", "c")

    assert consume(address, "carried", 3) == ["a", "b", "c"]
    assert found["state"] == "running"
    assert started.dev.up() == address
    assert started.dev.status() == found


def test_a_running_broker_does_not_move_to_another_port(started):
    address = started.dev.status()["address"]

    refused = started.dev.call("up", "--port", "9999")

    assert refused.returncode == 2
    assert refused.stderr == f"kafka already runs on {address}, not on port 9999; run `penstock dev down kafka` first\n"


def test_a_killed_broker_is_noticed_and_comes_back_with_its_records(started):
    dev = started.dev
    found = dev.status()
    address, killed = str(found["address"]), int(str(found["pid"]))
    create(address, "kept")
    produce(address, "kept", "a", "b")
    os.kill(killed, signal.SIGKILL)
    deadline = monotonic() + 10
    while exists(killed):
        assert monotonic() < deadline

    assert dev.status()["state"] == "stale"
    assert dev.call("status", "kafka").stdout == f"kafka stale: pid {killed} is gone; run `penstock dev up kafka`\n"

    assert dev.up() == address, "the port is remembered"
    assert dev.status()["pid"] != killed
    assert consume(address, "kept", 2) == ["a", "b"]


def test_a_feed_that_starts_a_broker_says_that_it_stays_and_it_goes_down_without_a_trace(dev, tmp_path):
    feed = ["feed", "lines", "--to", "kafka:lines", "--count", "3"]
    run = partial(penstock, folder=tmp_path, PENSTOCK_DEV=str(dev.folder), KAFKA_SERVERS="embedded")

    first = run(*feed)
    found = dev.status()
    recorded = run("record", "kafka:lines", "--to", "lines.jsonl")

    assert (first.returncode, recorded.returncode) == (0, 0), first.stderr + recorded.stderr
    says = f"started kafka on {found['address']}; it stays up until `penstock dev down kafka`"
    assert (first.stderr.count(says), recorded.stderr.count("started")) == (1, 0)

    done = dev.call("down", "kafka")
    assert done.stdout == f"kafka stopped (it ran on {found['address']}, pid {found['pid']})\n"
    assert not exists(found["pid"])
    assert dev.call("status", "kafka").stdout == "kafka stopped\n"
    assert dev.call("down", "kafka").stdout == "kafka was not running\n"


def test_a_chosen_port_that_is_taken_is_refused(dev):
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]

        refused = dev.call("up", "--port", str(taken))

    assert refused.returncode == 1
    assert refused.stderr.startswith(f"kafka cannot use port {taken}: another program listens on it; ")


def test_a_broker_that_cannot_start_shows_the_end_of_its_log(dev):
    data = dev.folder / "kafka" / "data"
    data.mkdir(parents=True)
    (data / "meta.properties").write_text("version=1\nnode.id=7\ncluster.id=gone\n")

    failed = dev.call("up")

    assert failed.returncode == 1
    assert "kafka stopped while starting; its log " in failed.stderr
    assert "configured node id matches" in failed.stderr
    assert dev.status()["state"] == "stopped"


def test_secured_listeners_come_up_with_certificates_and_a_file_for_the_shell(dev, tmp_path):
    printed = dict(line.split() for line in dev.up("--tls", "--sasl").splitlines())
    assert list(printed) == ["plaintext", "tls", "mutual-tls", "sasl-plain", "sasl-scram"]
    create(printed["plaintext"], "trades")

    shell = dev.folder / "kafka" / "client.env"
    assert shell.stat().st_mode & 0o077 == 0
    (tmp_path / "p.yaml").write_text(SECURED)
    command = f'. {shlex.quote(str(shell))} && exec "$0" -m penstock "$@"'
    call = ["sh", "-c", command, sys.executable]
    fed = subprocess.run([*call, "feed", "trades", "--to", f"{tmp_path}/p.yaml:scram", "--count", "3"], **CAPTURED)
    looked = subprocess.run([*call, "doctor", str(tmp_path / "p.yaml")], **CAPTURED)

    assert (fed.returncode, fed.stdout.split(" in ")[0]) == (0, "sent 3 trades to trades"), fed.stderr
    assert looked.returncode == 1, looked.stderr
    found = [(line[:4].strip(), line[5:31].rstrip(), line[32:]) for line in looked.stdout.splitlines()]
    well = [("mutual", "broker certificate topic"), ("hub", "broker certificate login topic")]
    well += [("scram", "broker certificate login topic")]
    ends = [("ok", f"source {name}: {what}") for name, whats in well for what in whats.split()]
    assert [line[:2] for line in found] == [*ends, ("ok", "sink out: broker"), ("BAD", "sink out")]
    assert found[1][2].startswith("valid for localhost and 127.0.0.1 until 20")
    assert found[2][2] == "'trades' has 2 partitions, we may read it"
    assert found[5][2] == "user '$ConnectionString' is accepted (PLAIN)"
    assert found[-1][2].startswith(f"{printed['tls']} requires TLS, and this connection has none; ")

    assert dev.call("up").stdout.strip() == printed["plaintext"], "the plaintext address alone, as always"
    dev.call("down")
    assert dev.up("--port", printed["plaintext"].rpartition(":")[2]) == printed["plaintext"]
    refused = dev.call("up", "--tls")
    assert refused.returncode == 2
    assert refused.stderr == (
        "kafka already runs without the listeners tls, mutual-tls, sasl-plain, sasl-scram; "
        "run `penstock dev down kafka` first; its data stays\n"
    )


def test_a_misspelled_service_is_the_calls_fault(dev):
    done = dev.call("up", "kafak")

    assert (done.returncode, done.stderr) == (2, "unknown service 'kafak'; did you mean 'kafka'?\n")


def test_the_shared_broker_gives_each_test_a_topic_of_two_partitions(broker, topic):
    produce(broker, topic, "a")

    assert consume(broker, topic, 1) == ["a"]
    found = AdminClient({"bootstrap.servers": broker}).list_topics(topic, timeout=10)
    assert len(found.topics[topic].partitions) == 2
