"""Batches of a run as lines of text and as a live table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.events import describe
from penstock.text import printable
from penstock.watch.snapshot import Snapshot, snapshot_of

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


def table(totals: Iterable[Total], waiting: str = "") -> Table:
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


def _time(event: Event) -> str:
    return printable(str(event.get("at", ""))[:19].replace("T", " "))
