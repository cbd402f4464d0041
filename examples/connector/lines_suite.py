"""The tests that every sink passes, on this one: `pytest lines_suite.py`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from penstock_lines import LinesSink

from penstock.testing.connectors import SinkSuite
from penstock.testing.spark import quick_session


@pytest.fixture(scope="session")
def spark():
    with quick_session([]) as session:
        yield session


class TestLines(SinkSuite):
    has_columns = False  # lines take any row

    def sink(self, place):
        return LinesSink(path=str(place))

    def written(self, sink):
        lines = [json.loads(line) for file in Path(sink.path).glob("*.jsonl") for line in file.read_text().splitlines()]
        return [(line["id"], line.get("name"), line.get("amount")) for line in lines]
