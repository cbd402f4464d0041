"""The notebooks of the examples, executed as they are, against a real broker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from tests.services.fixtures import Kafka

FOLDER = Path(__file__).parents[2] / "examples" / "notebooks"


def executed(name: str, kafka: Kafka, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Any]:
    """The outputs of each cell of code."""
    monkeypatch.setenv("KAFKA_SERVERS", kafka.address)
    monkeypatch.setenv("TOPIC", kafka.create())
    notebook = nbformat.read(FOLDER / name, as_version=4)
    NotebookClient(notebook, timeout=180, resources={"metadata": {"path": str(tmp_path)}}).execute()
    return [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]


def shown(outputs: list[Any]) -> dict[str, Any]:
    """What a live display last held."""
    data = [each.data for each in outputs if each.output_type == "display_data"][-1]
    assert "<svg" in data["text/html"] or "<table" in data["text/html"]
    return json.loads(data["text/plain"])


def result(outputs: list[Any]) -> str:
    """The value of a cell."""
    return next(each.data["text/plain"] for each in outputs if each.output_type == "execute_result")


def test_the_event_hubs_notebook_counts_events_by_the_time_they_were_enqueued(kafka, monkeypatch, tmp_path):
    cells = executed("eventhubs.ipynb", kafka, monkeypatch, tmp_path)

    first = shown(cells[2])
    assert first["columns"] == ["body", "enqueuedTime", "partition"]
    assert sorted(row[0] for row in first["rows"]) == [f"message {number} of five" for number in range(1, 6)]
    assert result(cells[2]) == "'5 rows were shown'"
    assert shown(cells[5])["rows"] == [[5]]
    assert sum(count for _, count in shown(cells[6])["rows"]) == 5
    assert result(cells[7]) == "5"


def test_the_tweets_notebook_counts_tags(kafka, monkeypatch, tmp_path):
    cells = executed("tweets.ipynb", kafka, monkeypatch, tmp_path)

    assert result(cells[2]) == "[]"
    assert len(shown(cells[3])["rows"]) == 20
    assert result(cells[4]) == "[['#kafka', 8], ['#spark', 12]]"
    assert result(cells[5]) == "[('#kafka', 8), ('#spark', 12)]"
