"""Producers of made-up records that can be believed: the same seed gives the same records."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from penstock.feeds.record import Record
from penstock.feeds.trades import trades

FEEDS: dict[str, Callable[[int], Iterator[Record]]] = {"trades": trades}

__all__ = ["FEEDS", "Record"]
