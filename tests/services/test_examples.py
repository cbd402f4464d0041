"""Examples on real parts, beyond what their READMEs say; tests/docs/test_commands.py judges what the READMEs run."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest
from tests.services.command import EXAMPLES, consume, penstock, produce, started, until

from penstock.engine import prepare
from penstock.feeds import FEEDS
from penstock.load import load


def example(name: str, tmp_path: Path) -> Path:
    """A copy of an example's folder, so that running it leaves nothing behind."""
    return Path(shutil.copytree(EXAMPLES / name, tmp_path / name, ignore=shutil.ignore_patterns(".penstock", "input")))


def synthetic_trades(count: int) -> list[bytes]:
    return [record.value for record in islice(FEEDS["trades"](7), count)]


def purchases(values: list[bytes]) -> list[str]:
    return sorted(value.decode() for value in values if json.loads(value)["Type"] == "BUY")


def copied(broker: str, topic: str) -> list[str]:
    return sorted(json.dumps(json.loads(value)) for value in consume(broker, topic))


def test_copy_twice_copies_every_record_exactly_once(project, broker: str, topics: dict[str, str], monkeypatch):
    file = example("copy", project.folder) / "copy.yaml"
    for name, value in {"KAFKA_SERVERS": broker, **topics}.items():
        monkeypatch.setenv(name, value)
    pipeline = prepare(load(file), lambda _: None, wait_seconds=10)
    values = synthetic_trades(2000)

    produce(broker, topics["FROM_TOPIC"], values[:1200])
    first = project.run_once(pipeline)
    produce(broker, topics["FROM_TOPIC"], values[1200:])
    second = project.run_once(pipeline)

    assert [batch.rows_in for batch in first.batches] == [1200]
    assert [batch.rows_in for batch in second.batches] == [800]
    assert copied(broker, topics["TO_TOPIC"]) == purchases(values)


@pytest.mark.parametrize("trigger", ["continuous", "real-time"])
def test_copy_runs_with_the_low_latency_triggers(broker: str, topics: dict[str, str], tmp_path: Path, trigger: str):
    folder = example("copy", tmp_path)
    values = synthetic_trades(300)
    produce(broker, topics["FROM_TOPIC"], values)

    with started("run", folder / f"copy-{trigger}.yaml", folder=tmp_path, KAFKA_SERVERS=broker, **topics) as run:
        until(
            lambda: (
                run.process.poll() is not None or len(consume(broker, topics["TO_TOPIC"])) >= len(purchases(values))
            ),
            f"the copies; it says\n{run.said}",
        )

        assert run.process.poll() is None, run.said
        assert copied(broker, topics["TO_TOPIC"]) == purchases(values)


def test_a_killed_copy_is_completed_by_running_it_again(broker: str, topics: dict[str, str], tmp_path: Path):
    folder = example("copy", tmp_path)
    file = folder / "copy.yaml"
    # Many small batches, so that the kill comes in the middle of the work.
    file.write_text(file.read_text().replace("start: earliest", "start: earliest, records_per_trigger: 2000"))
    values = synthetic_trades(30_000)
    produce(broker, topics["FROM_TOPIC"], values)

    with started("run", file, "--once", folder=tmp_path, KAFKA_SERVERS=broker, **topics) as run:
        until(lambda: "batch 1," in run.said or run.process.poll() is not None, f"the second batch\n{run.said}")
        assert run.process.poll() is None, run.said
        run.kill()
    before = len(consume(broker, topics["TO_TOPIC"]))
    again = penstock("run", file, "--once", folder=tmp_path, KAFKA_SERVERS=broker, **topics)

    assert again.returncode == 0, again.stderr
    assert before < len(purchases(values))
    found = Counter(copied(broker, topics["TO_TOPIC"]))
    wanted = Counter(purchases(values))
    assert set(found) == set(wanted), "something was lost or invented"
    # Spark's Kafka sink is at-least-once: at most the batch under way may be there twice.
    assert sum((found - wanted).values()) <= 2000
    assert not wanted - found


def test_the_wrong_table_stops_a_run_before_spark_starts(broker, topics, cassandra, tmp_path):
    folder = example("logins", tmp_path)
    file = folder / "logins.yaml"
    text = file.read_text().replace("site.users", f"{cassandra.keyspace}.nobody")
    file.write_text(text.replace("[logins]", f"[{topics['FROM_TOPIC']}]"))
    produce(broker, topics["FROM_TOPIC"], [b"{}"])

    systems = {"KAFKA_SERVERS": broker, "CASSANDRA_HOSTS": cassandra.address}
    ran = penstock("run", folder, "--once", folder=tmp_path, **systems)

    assert ran.returncode == 1
    assert re.search(
        r"logins.yaml:\d+:\d+: source 'users': keyspace 'k\w+' has no table 'nobody'; create it first", ran.stderr
    )
