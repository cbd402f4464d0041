"""The event log as a story: one plain line for each thing that happened, batches counted together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from penstock.watch.snapshot import snapshot

Event = Mapping[str, Any]

_LINES = {
    "lease_taken": "the lease was taken as number {token} by pid {pid} on {host}",
    "lease_released": "the lease was released",
    "lease_lost": "{reason}",
    "lease_beat_failed": "the lease's beat cannot be written: {reason}",
    "driver_started": "a driver was started, pid {pid}",
    "driver_ended": "the driver ended{_how}",
    "started": "the queries run: {_sinks}",
    "stopped": "the queries have stopped",
    "draining": "draining ({why}): running batches end and are committed, no other begins; once more stops at once",
    "drained": "drained: every running batch was committed",
    "abandoned": "the running batch of {_sinks} did not end in time and was abandoned; a restart repeats it",
    "stopping_now": "stopping at once ({why})",
    "restarting": "restart {restart} in {wait_seconds} s: {reason}",
    "query_restarting": "the query {sink!r} was started again alone: {reason}",
    "gave_up": "gave up after {restarts} restarts: {reason}",
    "failed": "failed: {reason}",
    "refreshed": "the table {source!r} was read again",
    "missed": "{rows:,} rows of batch {batch} of {sink!r} are missing in {target!r}: {reason}",
    "state_limit": "the state of {sink!r} has {bytes:,} bytes, more than the limit of {limit:,}",
    "stalled": "the query {sink!r} is stalled: no batch has ended for {seconds:.0f} s: {reason}",
    "resumed": "the query {sink!r} is no longer stalled",
    "reports_missing": (
        "Spark had not reported every batch after {seconds:.0f} s; the next start puts on record what is missing"
    ),
    "not_counted": "the query {sink!r} runs without counts of its late rows: {reason}",
    "gap": "a gap of {count:,} records in {topic} partition {partition}, offsets {start} to {end}: {why}",
    "clock_set_back": "the clock was set back by {seconds:,} s; queries with an interval began anew: {_sinks}",
    "checkpoint": "the checkpoint of {sink!r}: {says}",
}


def line(event: Event) -> str:
    """One event in a line, without its time."""
    facts = dict(event)
    if event["what"] == "batch":
        return _batches([event])
    facts["_sinks"] = ", ".join(event.get("sinks", ()))
    facts["_how"] = "" if event.get("well") else f": {event.get('reason')}"
    pattern = _LINES.get(event["what"])
    return pattern.format(**facts) if pattern else " ".join([event["what"], *_rest(event)])


def story(events: Iterable[Event]) -> Iterator[str]:
    """Every event with its time; batches between two others are one line for each query."""
    waiting: dict[str, list[Event]] = {}
    for event in events:
        if event["what"] == "batch":
            waiting.setdefault(event["progress"].get("name") or "", []).append(event)
            continue
        yield from _told(waiting)
        yield f"{_moment(event)}  {line(event)}"
    yield from _told(waiting)


def _told(waiting: dict[str, list[Event]]) -> Iterator[str]:
    for batches in waiting.values():
        yield f"{_moment(batches[-1])}  {_batches(batches)}"
    waiting.clear()


def _batches(batches: list[Event]) -> str:
    seen = [snapshot(event["progress"]) for event in batches]
    first, last = seen[0].batch, seen[-1].batch
    which = f"batch {first}" if first == last else f"batches {first} to {last}"
    bad = sum(each.bad for each in seen)
    rows = sum(each.rows_in for each in seen)
    return f"{seen[0].query}: {which}, {rows:,} rows" + (f", {bad:,} bad records left out" if bad else "")


def _moment(event: Event) -> str:
    return str(event.get("at", ""))[:19].replace("T", " ")


def _rest(event: Event) -> list[str]:
    return [f"{key}={value}" for key, value in event.items() if key not in ("at", "what")]
