"""Outside systems, one file each; a new connector is one file and one line here."""

from __future__ import annotations

from penstock.connectors.console import ConsoleSink
from penstock.connectors.eventhubs import EventHubsSink, EventHubsSource
from penstock.connectors.files import FileSink, FileSource
from penstock.connectors.kafka import KafkaSink, KafkaSource
from penstock.connectors.memory import MemorySink
from penstock.connectors.rate import RateSource
from penstock.connectors.socket import SocketSource
from penstock.options import SinkOptions, SourceOptions

SOURCES: dict[str, type[SourceOptions]] = {
    source.kind: source for source in (EventHubsSource, FileSource, KafkaSource, RateSource, SocketSource)
}
SINKS: dict[str, type[SinkOptions]] = {
    sink.kind: sink for sink in (ConsoleSink, EventHubsSink, FileSink, KafkaSink, MemorySink)
}
