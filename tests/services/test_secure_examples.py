"""The examples with secured brokers run as their READMEs say."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.services.command import EXAMPLES, consume, penstock
from tests.services.secured import SecuredBroker

from penstock.connectors.kafka import create_topics
from penstock.engine import prepare
from penstock.load import load


@pytest.fixture
def variables(secured: SecuredBroker) -> dict[str, str]:
    """What the file for the shell says."""
    return {**secured.broker.secured.variables, "EVENTHUBS_HUB": "demo"}


def copied(name: str, tmp_path: Path) -> Path:
    return Path(shutil.copytree(EXAMPLES / name, tmp_path / name, ignore=shutil.ignore_patterns(".penstock")))


def test_five_events_are_sent_read_counted_and_drawn(project, secured, variables, tmp_path, monkeypatch):
    create_topics(secured.address, ("demo",))
    folder = copied("eventhubs", tmp_path)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    project.run_once(prepare(load(folder / "send.yaml"), lambda _: None, wait_seconds=10))
    ran = penstock("run", folder, "--once", folder=tmp_path)

    assert ran.returncode == 0, ran.stderr
    assert sorted(consume(secured.address, "demo")) == [b"event %d of the first file" % n for n in range(1, 6)]
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in ran.stdout.splitlines() if "|" in line]
    assert sorted(line[0] for line in lines if line[0].startswith("event ")) == [
        f"event {number} of the first file" for number in range(1, 6)
    ]
    assert ["5"] in lines, "the number of events"
    assert sum(len(line[2]) for line in lines if len(line) == 3 and set(line[2]) == {"#"}) == 5, "a mark each"


def test_trades_go_from_mutual_tls_to_scram(secured, variables, tmp_path):
    create_topics(secured.address, ("trades", "purchases"))
    folder = copied("secure-kafka", tmp_path)

    looked = penstock("doctor", folder, folder=tmp_path, **variables)
    fed = penstock("feed", "trades", "--to", f"{folder}:trades", "--count", "200", folder=tmp_path, **variables)
    ran = penstock("run", folder, "--once", folder=tmp_path, **variables)

    assert (looked.returncode, fed.returncode, ran.returncode) == (0, 0, 0), looked.stdout + fed.stderr + ran.stderr
    bought = [json.loads(value) for value in consume(secured.address, "trades") if b'"BUY"' in value]
    assert len(consume(secured.address, "purchases")) == len(bought) > 0


def test_a_hub_is_fed_and_recorded(secured, variables, tmp_path):
    create_topics(secured.address, ("fed",))

    fed = penstock("feed", "sensors", "--to", "eventhubs:fed", "--count", "50", folder=tmp_path, **variables)
    kept = penstock("record", "eventhubs:fed", "--to", "fed.jsonl", folder=tmp_path, **variables)

    assert (fed.returncode, kept.returncode) == (0, 0), fed.stderr + kept.stderr
    values = [json.loads(line)["value"].encode() for line in (tmp_path / "fed.jsonl").read_text().splitlines()[1:]]
    assert sorted(values) == sorted(consume(secured.address, "fed"))
    assert len(values) == 50
