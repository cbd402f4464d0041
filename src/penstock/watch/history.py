"""The event log as text: one line per event, consecutive batches of a query summarized in one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from penstock.events import describe
from penstock.text import printable
from penstock.watch.snapshot import Snapshot, snapshot_of

Event = Mapping[str, Any]


def history_lines(events: Iterable[Event]) -> Iterator[str]:
    """Every event with its time; the batches between two other events are one line per query."""
    batches: dict[str, list[tuple[Event, Snapshot]]] = {}
    for event in events:
        snapshot = snapshot_of(event)
        if snapshot is not None:
            batches.setdefault(snapshot.query, []).append((event, snapshot))
            continue
        yield from _summarize_each(batches)
        yield f"{_time(event)}  {describe(event)}"
    yield from _summarize_each(batches)


def _summarize_each(batches: dict[str, list[tuple[Event, Snapshot]]]) -> Iterator[str]:
    for query in batches.values():
        yield f"{_time(query[-1][0])}  {_summarize([snapshot for _, snapshot in query])}"
    batches.clear()


def _summarize(batches: list[Snapshot]) -> str:
    first, last = batches[0].batch, batches[-1].batch
    which = f"batch {first}" if first == last else f"batches {first} to {last}"
    bad = sum(snapshot.bad for snapshot in batches)
    rows = sum(snapshot.rows_in for snapshot in batches)
    dropped = f", {bad:,} bad records left out" if bad else ""
    return printable(f"{batches[0].query}: {which}, {rows:,} rows{dropped}")


def _time(event: Event) -> str:
    return printable(str(event.get("at", ""))[:19].replace("T", " "))
