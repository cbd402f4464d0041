"""The same file on a real standalone cluster: a master and two workers of one core."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.conftest import Project
from tests.services.command import EXAMPLES, consume, penstock, produce, until

from penstock.feeds import FEEDS
from penstock.services.kafka import free_port

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOUD = """
from pyspark.sql import DataFrame, functions as F

import voices


@F.udf("string")
def shout(word: str) -> str:
    return voices.loud(word)


def loud(trades: DataFrame) -> DataFrame:
    return trades.withColumn("BrokerCode", shout("BrokerCode"))
"""


@contextmanager
def spark_process(class_name: str, *arguments: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    home = Path(spec.origin).parent
    environment = {**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{class_name}", *arguments]
    with log.open("wb") as file:
        process = subprocess.Popen(command, env=environment, stdout=file, stderr=file, start_new_session=True)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("cluster")
    port = free_port()
    url = f"spark://127.0.0.1:{port}"
    at_master = ("--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")
    at_worker = ("--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", "0")
    logs = [folder / "worker-1.log", folder / "worker-2.log"]
    with (
        spark_process("master.Master", *at_master, log=folder / "master.log"),
        spark_process("worker.Worker", *at_worker, "--work-dir", str(folder / "1"), url, log=logs[0]),
        spark_process("worker.Worker", *at_worker, "--work-dir", str(folder / "2"), url, log=logs[1]),
    ):
        for log in logs:
            until(lambda log=log: "Successfully registered with master" in log.read_text(), f"{log}")
        yield url


def test_a_cluster_gives_the_results_of_one_machine(
    broker: str,
    master: str,
    topics: dict[str, str],
    tmp_path: Path,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
):
    values = [record.value for record in islice(FEEDS["trades"](3), 2000)]
    produce(broker, topics["FROM_TOPIC"], values)
    (tmp_path / "loud.py").write_text(LOUD)
    (tmp_path / "voices.py").write_text("def loud(word):\n    return word.lower() + '!'\n")
    (tmp_path / "storage").mkdir()
    text = (EXAMPLES / "trades" / "trades.yaml").read_text().replace("[trades]", f"[{topics['FROM_TOPIC']}]", 1)
    text = text.replace("steps:\n", "steps:\n  shouted: {python: 'loud:loud', reads: [trades]}\n")
    text = text.replace("FROM trades\n", "FROM shouted\n").replace("window.end,", "window.end, BrokerCode,")
    text = text.replace("'15 minutes')", "'15 minutes'), BrokerCode").replace("key: start", "key: BrokerCode")
    text = text.replace("topic: trade-totals", f"topic: {topics['TO_TOPIC']}")
    text = text.replace("name: trades", f"name: NAME\nstorage: {tmp_path}/storage")
    monkeypatch.setenv("KAFKA_SERVERS", broker)

    Project(tmp_path, spark).run(text.replace("NAME", "here"), "here.yaml")
    here = Counter(json.dumps(json.loads(value)) for value in consume(broker, topics["TO_TOPIC"]))
    (tmp_path / "there.yaml").write_text(text.replace("NAME", "there"))
    ran = penstock("run", "there.yaml", "--once", "--master", master, folder=tmp_path)

    assert ran.returncode == 0, ran.stderr
    # The second run adds its rows to the same topic: each row of the first is then there twice.
    both = Counter(json.dumps(json.loads(value)) for value in consume(broker, topics["TO_TOPIC"]))
    assert len(here) > 100
    assert all("!" in row for row in here)
    assert both - here == here


def test_a_cluster_needs_storage_that_all_its_machines_see(tmp_path: Path):
    (tmp_path / "p.yaml").write_text(
        "name: p\nsources: {ticks: {rate: {}}}\nsinks: {screen: {from: ticks, console: {}}}\n"
    )

    ran = penstock("run", "p.yaml", "--master", "spark://127.0.0.1:1", folder=tmp_path)

    assert ran.returncode == 1
    assert "storage" in ran.stderr
    assert "Traceback" not in ran.stderr
