"""Outside systems, one file each; a new connector is one file and one line here, or an entry point elsewhere."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import entry_points
from typing import Any

from penstock.connectors.cassandra import CassandraSink, CassandraSource
from penstock.connectors.console import ConsoleSink
from penstock.connectors.delta import DeltaSink, DeltaSource
from penstock.connectors.eventhubs import EventHubsSink, EventHubsSource
from penstock.connectors.files import FileSink, FileSource
from penstock.connectors.jdbc import JdbcSink, JdbcSource
from penstock.connectors.kafka import KafkaSink, KafkaSource
from penstock.connectors.memory import MemorySink
from penstock.connectors.own import ForeachBatchSink, ForeachSink
from penstock.connectors.rate import RateSource
from penstock.connectors.socket import SocketSource
from penstock.options import SinkOptions, SourceOptions


def _kinds(ours: Iterable[type[Any]], group: str) -> dict[str, type[Any]]:
    """Our connectors, then those of other packages: an entry point each, which cannot take the place of ours."""
    theirs = [point.load() for point in entry_points(group=group)]
    return {connector.kind: connector for connector in [*theirs, *ours]}


SOURCES: dict[str, type[SourceOptions]] = _kinds(
    (CassandraSource, DeltaSource, EventHubsSource, FileSource, JdbcSource, KafkaSource, RateSource, SocketSource),
    "penstock.sources",
)
SINKS: dict[str, type[SinkOptions]] = _kinds(
    (
        CassandraSink,
        ConsoleSink,
        DeltaSink,
        EventHubsSink,
        FileSink,
        ForeachBatchSink,
        ForeachSink,
        JdbcSink,
        KafkaSink,
        MemorySink,
    ),
    "penstock.sinks",
)
