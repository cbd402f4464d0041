"""Producers: synthetic records, files and HTTP streams, sent to topics, folders and sockets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from penstock.feeds.generators import (
    Shape,
    ads,
    clicks,
    clickstream,
    impressions,
    invoices,
    lines,
    logins,
    sensors,
    trades,
    tweets,
    weblogs,
)
from penstock.feeds.records import Record


class Feed(Protocol):
    """Generates an endless stream; the same seed and shape give the same records."""

    def __call__(self, seed: int, shape: Shape = ..., /) -> Iterator[Record]: ...


FEEDS: dict[str, Feed] = {
    "ads": ads,
    "clicks": clicks,
    "clickstream": clickstream,
    "impressions": impressions,
    "invoices": invoices,
    "lines": lines,
    "logins": logins,
    "sensors": sensors,
    "trades": trades,
    "tweets": tweets,
    "weblogs": weblogs,
}

#: Kinds that generate more than one stream, each for a separate target.
STREAMS: dict[str, tuple[str, ...]] = {"ads": ("impressions", "clicks")}

#: Kinds whose values are text, not JSON.
TEXTS = ("lines",)

__all__ = ["FEEDS", "STREAMS", "TEXTS", "Feed", "Record", "Shape"]
