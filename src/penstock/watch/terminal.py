"""The views of a pipeline as text: batch lines, totals, status, history."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from penstock.events import describe
from penstock.text import printable
from penstock.watch.snapshot import Snapshot, snapshot_of
from penstock.watch.views import PipelineView, QueryView

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class Total:
    """The totals of one query since the run began."""

    query: str
    batches: int = 0
    rows_in: int = 0
    bad: int = 0
    late: int = 0
    seconds: float = 0.0
    last: Snapshot | None = None

    def add(self, snapshot: Snapshot) -> Total:
        """The totals with one more batch; an empty trigger does not count as one."""
        counts = snapshot.rows_in > 0
        return Total(
            query=self.query,
            batches=self.batches + counts,
            rows_in=self.rows_in + snapshot.rows_in,
            bad=self.bad + snapshot.bad,
            late=self.late + snapshot.late_rows,
            seconds=self.seconds + snapshot.seconds * counts,
            last=snapshot,
        )


def line(snapshot: Snapshot) -> str:
    """A batch as one line."""
    parts = [
        f"{snapshot.query}: batch {snapshot.batch}",
        f"{snapshot.rows_in:,} rows",
        f"{snapshot.rows_per_second:,.0f} rows/s",
        f"{snapshot.seconds:.2f} s",
    ]
    parts += [f"watermark {format_time(snapshot.watermark)}"] if snapshot.watermark else []
    parts += [f"{snapshot.bad:,} bad records left out"] if snapshot.bad else []
    parts += [f"{snapshot.late_rows:,} late rows"] if snapshot.late_rows else []
    return ", ".join(parts)


def summary(total: Total) -> str:
    """The whole run of one query as one line."""
    rate = f" at {total.rows_in / total.seconds:,.0f} rows/s" if total.seconds else ""
    bad = f", {total.bad:,} bad records left out" if total.bad else ""
    bad += f", {total.late:,} late rows" if total.late else ""
    batches = "batch" if total.batches == 1 else "batches"
    return f"{total.query}: {total.rows_in:,} rows in {total.batches:,} {batches}{rate}{bad}"


def totals_table(totals: Iterable[Total], waiting: str = "") -> Table:
    """The last batch and the totals of each query, with what the run waits for as the caption."""
    from rich.table import Table
    from rich.text import Text

    drawn = Table("sink", "batch", "rows", "rows/s", "seconds", "watermark", "rows in all", "bad", "late", box=None)
    drawn.caption, drawn.caption_justify = Text(waiting) if waiting else None, "left"
    for column in drawn.columns[1:]:
        column.justify = "right"
    for total in totals:
        last = total.last
        drawn.add_row(
            total.query,
            f"{last.batch}" if last else "-",
            f"{last.rows_in:,}" if last else "waiting",
            f"{last.rows_per_second:,.0f}" if last else "-",
            f"{last.seconds:.2f}" if last else "-",
            format_time(last.watermark) if last and last.watermark else "-",
            f"{total.rows_in:,}",
            f"{total.bad:,}",
            f"{total.late:,}",
        )
    return drawn


def format_time(timestamp: str) -> str:
    """Spark's `2019-02-05T10:05:00.000Z` as `2019-02-05 10:05:00`."""
    return timestamp.replace("T", " ").removesuffix("Z").removesuffix(".000")


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


def damaged_lines(count: int) -> str:
    """That lines of the event log were left out."""
    return f"{_count(count, 'line')} of the event log {'is' if count == 1 else 'are'} damaged and left out"


def _time(event: Event) -> str:
    return printable(str(event.get("at", ""))[:19].replace("T", " "))


_COLOURS = {
    "running": "green",
    "stalled": "red",
    "failed": "red",
    "gone": "red",
    "restarting": "yellow",
    "draining": "yellow",
}


def lines(view: PipelineView, now: float) -> Iterator[str]:
    """A pipeline and its queries as text."""
    yield f"{view.name}: {view.state}" + (f" for {span(now - view.since)}" if view.since else "")
    if view.broken_lines:
        yield f"  {damaged_lines(view.broken_lines)}"
    if view.restarts or view.failures:
        yield f"  {_count(view.failures, 'failure')}, {_count(view.restarts, 'restart')}"
    if view.last_error:
        yield f"  last error {clock(view.last_error_at)}: {printable(view.last_error)}"
    for query in view.queries:
        yield from (f"  {printable(line)}" for line in _query(query))


def _query(query: QueryView) -> Iterator[str]:
    if query.stalled_since:
        yield f"{query.sink}: stalled since {clock(query.stalled_since)}: {printable(query.stalled_reason)}"
    if query.batch is None:
        yield f"{query.sink}: no batch yet"
    else:
        rate = "idle" if query.idle else f"{query.input_per_second:,.0f} rows/s in"
        rate += "" if query.idle else f", {query.processed_per_second:,.0f} processed"
        batch = f"batch {query.batch} at {clock(query.at)}"
        yield f"{query.sink}: {batch}, {query.rows_in:,} rows, {rate}, {query.seconds:.2f} s"
        if query.behind:
            yield f"  behind: {query.rows_behind:,} rows" + _time_behind(query) + _worst_partition(query)
        if query.watermark:
            oldest = f", oldest open window ends {query.oldest_window_ends}" if query.oldest_window_ends else ""
            yield f"  watermark {format_time(query.watermark)}{oldest}"
        if query.state_rows:
            yield f"  state: {query.state_rows:,} rows, {size(query.state_memory_bytes)} of memory"
        left_out = [
            *(f"{count:,} bad records of {source}" for source, count in query.bad_records.items() if count),
            *([f"{query.late_rows:,} late rows"] if query.late_rows else []),
            *([f"{query.missed_rows:,} rows missing in an optional target"] if query.missed_rows else []),
        ]
        if left_out:
            yield f"  left out: {', '.join(left_out)}"
    if query.last_error:
        yield f"  last error: {printable(query.last_error)}"
    if query.promise:
        yield f"  promise: {query.promise}"


def status_table(views: Iterable[PipelineView], chosen: int = -1) -> Table:
    """A table with a row for every query."""
    from rich.table import Table
    from rich.text import Text

    drawn = Table("pipeline", "sink", "state", "batch", "in/s", "done/s", "seconds", "behind", "late", "bad", box=None)
    for column in drawn.columns[3:]:
        column.justify = "right"
    for number, (view, query) in enumerate(rows(views)):
        style = "reverse" if number == chosen else ""
        state = Text(view.state if not query or not query.idle else "idle", style=_COLOURS.get(view.state, ""))
        if query is None:
            drawn.add_row(view.name, "-", state, style=style)
        else:
            drawn.add_row(view.name, Text(printable(query.sink)), state, *_numbers(query), style=style)
    return drawn


def rows(views: Iterable[PipelineView]) -> list[tuple[PipelineView, QueryView | None]]:
    """A row for each query, and one for each pipeline without queries."""
    return [(view, query) for view in views for query in (view.queries or (None,))]


def _numbers(query: QueryView) -> list[str]:
    if query.batch is None:
        return ["-"] * 7
    behind = "-" if query.rows_behind is None else f"{query.rows_behind:,}"
    return [
        f"{query.batch}",
        f"{query.input_per_second:,.0f}",
        f"{query.processed_per_second:,.0f}",
        f"{query.seconds:.2f}",
        behind,
        f"{query.late_rows:,}",
        f"{sum(query.bad_records.values()):,}",
    ]


def clock(at: float) -> str:
    """A time in UTC, without fractions."""
    try:
        return datetime.fromtimestamp(at, timezone.utc).strftime("%Y-%m-%d %H:%M:%S") if at else "-"
    except (ValueError, OverflowError, OSError):
        return "-"


def span(seconds: float) -> str:
    """A duration in its largest unit."""
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.1f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


def size(count: float) -> str:
    """A number of bytes in its largest unit."""
    for unit, length in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= length:
            return f"{count / length:.1f} {unit}"
    return f"{count:.0f} B"


def _time_behind(query: QueryView) -> str:
    return f", {span(query.seconds_behind)}" if query.seconds_behind else ""


def _worst_partition(query: QueryView) -> str:
    each = {name: count for partitions in query.behind.values() for name, count in partitions.items()}
    worst = max(each, key=lambda name: each[name], default="")
    return f"; most in {worst}: {each[worst]:,}" if len(each) > 1 and each[worst] else ""


def _count(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"
