"""Model to running queries; the only room that makes a SparkSession or starts a query."""

from __future__ import annotations

from penstock.engine.build import build
from penstock.engine.prepare import prepare
from penstock.engine.run import start, stop, wait
from penstock.spark.session import session

__all__ = ["build", "prepare", "session", "start", "stop", "wait"]
