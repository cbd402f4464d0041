"""Penstock: production streaming pipelines on Apache Spark, from one file."""

from penstock.errors import PenstockError
from penstock.options import Secret
from penstock.pipeline import Pipeline, cassandra, console, delta, eventhubs, files, jdbc, kafka, memory, rate, socket

__all__ = [
    "PenstockError",
    "Pipeline",
    "Secret",
    "cassandra",
    "console",
    "delta",
    "eventhubs",
    "files",
    "jdbc",
    "kafka",
    "memory",
    "rate",
    "socket",
]
