"""The registry of connectors: one line here for each built-in one, entry points for those of other packages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from penstock.connector import SinkOptions, SourceOptions


class Registry(Mapping[str, type[Any]]):
    """Connector classes by kind, imported on first use so that a pipeline loads only its own."""

    def __init__(self, group: str, built_in: Mapping[str, str]) -> None:
        self._group, self._built_in = group, built_in

    @cached_property
    def _plugins(self) -> dict[str, EntryPoint]:
        """Connectors of other packages; they cannot replace a built-in one."""
        return {point.name: point for point in entry_points(group=self._group)}

    def __getitem__(self, kind: str) -> type[Any]:
        if kind in self._built_in:
            module, _, name = self._built_in[kind].partition(":")
            built_in: type[Any] = getattr(import_module(f"penstock.connectors.{module}"), name)
            return built_in
        plugin: type[Any] = self._plugins[kind].load()
        return plugin

    def __contains__(self, kind: object) -> bool:
        return kind in self._built_in or kind in self._plugins

    def __iter__(self) -> Iterator[str]:
        return iter({**self._plugins, **self._built_in})

    def __len__(self) -> int:
        return len({**self._plugins, **self._built_in})


SOURCES: Mapping[str, type[SourceOptions]] = Registry(
    "penstock.sources",
    {
        "cassandra": "cassandra:CassandraSource",
        "delta": "delta:DeltaSource",
        "eventhubs": "eventhubs:EventHubsSource",
        "files": "files:FileSource",
        "jdbc": "jdbc:JdbcSource",
        "kafka": "kafka:KafkaSource",
        "rate": "rate:RateSource",
        "socket": "socket:SocketSource",
    },
)
SINKS: Mapping[str, type[SinkOptions]] = Registry(
    "penstock.sinks",
    {
        "cassandra": "cassandra:CassandraSink",
        "console": "console:ConsoleSink",
        "delta": "delta:DeltaSink",
        "eventhubs": "eventhubs:EventHubsSink",
        "files": "files:FileSink",
        "foreach": "python:ForeachSink",
        "foreach_batch": "python:ForeachBatchSink",
        "jdbc": "jdbc:JdbcSink",
        "kafka": "kafka:KafkaSink",
        "memory": "memory:MemorySink",
    },
)
