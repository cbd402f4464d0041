"""The tests that every sink passes, on folders of files: as one of several targets, whose batches are handed to it."""

from __future__ import annotations

import json
from pathlib import Path

from penstock.connectors.files import FileSink
from penstock.testing.connectors import SinkSuite


class TestFiles(SinkSuite):
    has_columns = False

    def sink(self, place):
        return FileSink(path=str(place / "out"), format="json")

    def written(self, sink):
        files = Path(sink.path).glob("batch=*/*.json")
        lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
        return [(line["id"], line.get("name"), line.get("amount")) for line in lines]
