"""Penstock: production streaming pipelines on Apache Spark, from one file."""

from penstock.errors import PenstockError
from penstock.pipeline import Pipeline, cassandra, console, delta, files, jdbc, kafka, memory, rate, socket

__all__ = [
    "PenstockError",
    "Pipeline",
    "cassandra",
    "console",
    "delta",
    "files",
    "jdbc",
    "kafka",
    "memory",
    "rate",
    "socket",
]
