"""The scripts beside their pipelines: each runs as it stands, on real parts, and each pipeline is built by Spark."""

from __future__ import annotations

import json
import re
import shutil
import socket
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.docs.console import ROOT, File, steps

from penstock.checks import check
from penstock.engine import build, prepare
from penstock.load import load

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES = [
    (page, step)
    for page in sorted((ROOT / "docs" / "from-pyspark").glob("*.md"))
    for step in steps(page.read_text())
    if isinstance(step, File)
]
SCRIPTS = [step for _, step in FILES if step.name.endswith("_spark.py")]
PIPELINES = [step for _, step in FILES if step.name.endswith(".yaml")]
RECORDS: dict[str, list[Any]] = {
    "tweets": ["hello"],
    "lines": ["the cat and the dog", "the end"],
    "orders": ["an order"],
    "trades": [{"CreatedTime": "2019-02-05 10:05:00", "Type": "BUY", "Amount": 500, "BrokerCode": "ABX"}],
    "sensors": [{"CreatedTime": "2019-02-05 10:05:00", "SensorID": "S1", "Reading": 36.5}],
    "logins": [{"login_id": "100001", "created_time": "2020-09-09 10:18:00"}],
    "impressions": [{"ImpressionID": "1", "CreatedTime": "2020-09-09 10:00:00", "Campaigner": "ABC"}],
    "clicks": [{"ImpressionID": "1", "CreatedTime": "2020-09-09 10:05:00"}],
    "word-counts": [],
    "orders-copy": [],
}


@pytest.fixture(scope="module")
def topics(broker: str) -> None:
    """The topics that the scripts name, with a record or two."""
    from confluent_kafka import Producer

    from penstock.connectors.kafka import create_topics

    create_topics(broker, tuple(RECORDS))
    producer = Producer({"bootstrap.servers": broker})
    for topic, values in RECORDS.items():
        for value in values:
            producer.produce(topic, value if isinstance(value, str) else json.dumps(value))
    producer.flush()


@pytest.fixture(scope="module")
def site(cassandra_session: Any) -> Iterator[str]:
    """A keyspace of its own with the tables that the scripts name."""
    name = f"site_{uuid.uuid4().hex[:8]}"
    replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
    for statement in (
        f"CREATE KEYSPACE {name} WITH replication = {replication}",
        f"CREATE TABLE {name}.users (login_id text PRIMARY KEY, user_name text, last_login timestamp)",
        f"CREATE TABLE {name}.counts (word text PRIMARY KEY, count bigint)",
        f"INSERT INTO {name}.users (login_id, user_name) VALUES ('100001', 'Prashant')",
    ):
        cassandra_session.execute(statement)
    yield name
    cassandra_session.execute(f"DROP KEYSPACE {name}")


@pytest.fixture
def connect(broker: str, cassandra_address: str, site: str) -> Callable[[str], str]:
    """Lets a script or a pipeline use the broker and the Cassandra of the tests."""

    def connected(text: str) -> str:
        text = text.replace("localhost:9092", broker).replace("localhost:9042", cassandra_address)
        text = text.replace("9042", cassandra_address.rpartition(":")[2])
        return text.replace('"site"', f'"{site}"').replace("site.", f"{site}.")

    return connected


@pytest.fixture
def lines() -> Iterator[int]:
    """The port of a server that says two lines, as `nc` would."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = server.accept()
        connection.sendall(b"the cat and the dog\nthe end\n")
        done.wait(60)
        connection.close()

    done = threading.Event()
    threading.Thread(target=serve, daemon=True).start()
    yield server.getsockname()[1]
    done.set()
    server.close()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a script finds its files, and leaves its own."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "examples" / "invoices" / "samples", tmp_path / "input")
    (tmp_path / "pairs").mkdir()
    (tmp_path / "pairs" / "one.json").write_text('{"key": 1, "value": 2}\n')
    return tmp_path


def run(script: str, spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Run a script in the session that is there, up to where it would wait for ever; gives the rows that it read."""
    from pyspark.sql.streaming.query import StreamingQuery, StreamingQueryManager

    read: list[int] = []

    def end(query: StreamingQuery) -> None:
        if "ContinuousExecution" not in str(query.lastProgress) and "continuous" not in script:
            query.processAllAvailable() if "rate" not in script else _one_batch(query)
            read.extend(progress.numInputRows for progress in query.recentProgress)
        query.stop()

    monkeypatch.setattr(StreamingQuery, "awaitTermination", lambda self: end(self))
    monkeypatch.setattr(
        StreamingQueryManager, "awaitAnyTermination", lambda _: [end(each) for each in spark.streams.active]
    )
    # Paths of Spark do not follow chdir.
    script = re.sub(r'"(input|output|archived|pairs|lake|all|even)"', lambda found: f'"{folder / found[1]}"', script)
    script = re.sub(r'(f?)"(checkpoint(?:/[^"]*)?)"', lambda found: f'{found[1]}"{folder / found[2]}"', script)
    # Nor do those of its workers.
    script = script.replace('Path(f"rows-', f'Path(f"{folder}/rows-')
    try:
        exec(compile(script, "script", "exec"), {"__name__": "__main__"})
    finally:
        for query in spark.streams.active:
            query.stop()
    return sum(read)


def _one_batch(query: Any) -> None:
    while query.isActive and not any(progress.numInputRows for progress in query.recentProgress):
        query.exception()


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
@pytest.mark.usefixtures("topics")
def test_a_script_runs_as_it_stands(
    script: File,
    spark: SparkSession,
    connect: Callable[[str], str],
    lines: int,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
):
    text = connect(script.text).replace("9999", str(lines))
    text = text.replace('"latest"', '"earliest"').replace('"1 minute"', '"0 seconds"')

    rows = run(text, spark, folder, monkeypatch)

    assert rows or "continuous" in text


@pytest.mark.parametrize("pipeline", PIPELINES, ids=lambda pipeline: pipeline.name)
@pytest.mark.usefixtures("topics")
def test_a_pipeline_is_built_by_spark(pipeline: File, spark: SparkSession, connect: Callable[[str], str], folder: Path):
    methods = ("onQueryStarted", "onQueryProgress", "onQueryTerminated", "onQueryIdle")
    (folder / "pager.py").write_text(
        "class Pager:\n" + "".join(f"  def {name}(self, event): ...\n" for name in methods)
    )
    (folder / "lines.py").write_text("class Lines:\n  def process(self, row): ...\n")
    file = folder / pipeline.name
    file.write_text(connect(pipeline.text))
    loaded = load(file)

    assert [str(each) for each in check(loaded) if each.severity == "error"] == []
    assert set(build(prepare(loaded, lambda _: None), spark)) >= {step.name for step in loaded.steps}
