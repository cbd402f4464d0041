"""Outside systems, one file each; a new connector is one file and one line here, or an entry point elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from penstock.connector import SinkOptions, SourceOptions


class Kinds(Mapping[str, type[Any]]):
    """Connectors by their kind; a file is imported when its kind is asked for, so that a pipeline pays for its own."""

    def __init__(self, group: str, ours: Mapping[str, str]) -> None:
        self._group, self._ours = group, ours

    @cached_property
    def _theirs(self) -> dict[str, EntryPoint]:
        """Those of other packages, which cannot take the place of ours."""
        return {point.name: point for point in entry_points(group=self._group)}

    def __getitem__(self, kind: str) -> type[Any]:
        if kind in self._ours:
            file, _, name = self._ours[kind].partition(":")
            found: type[Any] = getattr(import_module(f"penstock.connectors.{file}"), name)
            return found
        theirs: type[Any] = self._theirs[kind].load()
        return theirs

    def __contains__(self, kind: object) -> bool:
        return kind in self._ours or kind in self._theirs

    def __iter__(self) -> Iterator[str]:
        return iter({**self._theirs, **self._ours})

    def __len__(self) -> int:
        return len({**self._theirs, **self._ours})


SOURCES: Mapping[str, type[SourceOptions]] = Kinds(
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
SINKS: Mapping[str, type[SinkOptions]] = Kinds(
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
