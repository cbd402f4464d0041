"""Model to running queries; the only room that starts and stops queries."""

from __future__ import annotations

from penstock.engine.build import build
from penstock.engine.prepare import prepare
from penstock.engine.queries import Queries, start
from penstock.spark.session import session

__all__ = ["Queries", "build", "prepare", "session", "start"]
