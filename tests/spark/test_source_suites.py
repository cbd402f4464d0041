"""The tests that every source passes, on those that need no service."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import deltalake
import pyarrow

from penstock.connectors.delta import DeltaSource
from penstock.connectors.files import FileSource
from penstock.connectors.jdbc import JdbcSource
from penstock.connectors.rate import RateSource
from penstock.connectors.socket import SocketSource
from penstock.testing.connectors import SourceSuite


class TestTextFiles(SourceSuite):
    def source(self, place):
        (place / "1.txt").write_text("one\n")
        return FileSource(path=str(place))


class TestJsonFiles(SourceSuite):
    def source(self, place):
        (place / "1.json").write_text('{"id": 1, "name": "one"}\n')
        return FileSource(path=str(place), format="json", schema="id int, name string")


class TestInferredFiles(SourceSuite):
    def source(self, place):
        (place / "1.json").write_text('{"id": 1, "name": "one"}\n')
        return FileSource(path=str(place), format="json", infer=True)


class TestRate(SourceSuite):
    def source(self, place):  # noqa: ARG002
        return RateSource(rows_per_second=3, partitions=2)


class TestSocket(SourceSuite):
    """Nothing connects before the first batch."""

    def source(self, place):  # noqa: ARG002
        return SocketSource(port=1)


class TestDelta(SourceSuite):
    def source(self, place):
        rows = pyarrow.table({"id": [1, 2], "name": ["one", None]})
        deltalake.write_deltalake(str(place / "table"), rows, mode="overwrite")
        return DeltaSource(path=str(place / "table"))


class TestSQLite(SourceSuite):
    def source(self, place):
        with closing(sqlite3.connect(place / "shop.db")) as connection, connection:
            connection.execute("CREATE TABLE IF NOT EXISTS items (id INT, name TEXT)")
        return JdbcSource(url=f"jdbc:sqlite:{place / 'shop.db'}", table="items")
