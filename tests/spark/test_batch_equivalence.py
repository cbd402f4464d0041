"""Every stateful example writes what a batch over all of its input would give, however that input arrives.

A case is a few random rows in a random order of arrival, cut into one to three batches at random. None of its rows is
late: a row arrives less than the watermark's 30 minutes after its time.

    time       10:00   10:20   10:35
    arrives    10:29   10:20   10:40     so the order of arrival is 10:20, 10:00, 10:35

A query is too dear to be started for each case, so three of each example run side by side for the whole property. Each
run of hypothesis hands each of them a case of its own, on a later day than the case before; what a query has written
in all must then equal the batch over all that it was ever given, worked out here without Spark. Sensors know nothing
of each other, and neither do advertisements: there a query gets three cases at once, with keys of their own.

    example        runs   queries   cases for a query
    trades            6         3                   1     18
    net               3         3                   1      9
    sensors           3         3                   3     27
    ads               3         3                   3     27
    clickstream       5         3                   1     15     96 cases
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from penstock.load import load
from penstock.testing import Bench

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLES = Path(__file__).parents[2] / "examples"
FIRST_DAY = datetime(2024, 1, 1, 10, tzinfo=timezone.utc)
MINUTE = timedelta(minutes=1)
DELAY = 30 * MINUTE
WINDOW = 15 * MINUTE
QUERIES = 3
APART = 3
FAR = timedelta(hours=6)


class Event(NamedTuple):
    """A row of a source: when it happened and when it arrives, both from the beginning of its case."""

    source: str
    time: timedelta
    arrives: timedelta
    row: dict[str, Any]


Case = list[list[Event]]


@dataclass
class Line:
    """One running query, and all that it was given."""

    bench: Bench
    today: datetime = FIRST_DAY
    given: list[dict[str, Any]] = field(default_factory=list)

    def feed(self, case: Case) -> None:
        """The batches of one case, on a day of its own."""
        self.today += timedelta(days=1)
        for batch in case:
            rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
            for event in batch:
                rows[event.source].append(self._on_this_day(event))
            self.bench.feed_all(rows)

    @property
    def watermark(self) -> datetime:
        """The watermark that the last batch of a flushed case has moved."""
        return self.today + FAR - DELAY

    def of(self, source: str) -> list[dict[str, Any]]:
        """All that one source was given."""
        return [row for row in self.given if row["source"] == source]

    def _on_this_day(self, event: Event) -> dict[str, Any]:
        row = dict(event.row)
        if "ImpressionID" in row:
            row["ImpressionID"] = f"{self.today:%j}-{row['ImpressionID']}"
        moment = self.today + event.time
        self.given.append({**row, "source": event.source, "time": moment})
        return {**row, "CreatedTime": f"{moment:%Y-%m-%d %H:%M:%S}"}


class Lines:
    """The queries of one example, each of which gets its own case."""

    def __init__(self, lines: Sequence[Line], pool: ThreadPoolExecutor) -> None:
        self._lines, self._pool = lines, pool

    def check(self, cases: Sequence[Case], one: Any) -> None:
        """Run a check on each query with its case, side by side."""
        list(self._pool.map(one, self._lines, cases))


@pytest.fixture(scope="module")
def lines(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[Lines]:
    """Three queries of the example that the test names."""
    pipeline = load(EXAMPLES / request.param)
    # The bench asks for all reports after each batch, and nothing is asked of old ones here.
    pipeline = replace(pipeline, spark={**pipeline.spark, "spark.sql.streaming.numRecentProgressUpdates": "5"})
    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(QUERIES))
        benches = list(pool.map(lambda _: Bench(pipeline, spark), range(QUERIES)))
        yield Lines([Line(stack.enter_context(bench)) for bench in benches], pool)


def example(file: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("lines", [file], indirect=True, ids=[Path(file).stem])


def runs(count: int) -> settings:
    # A run takes seconds: it is not tried again and again to find a smaller one.
    phases = (Phase.explicit, Phase.generate)
    checks = (HealthCheck.too_slow, HealthCheck.data_too_large)
    return settings(
        max_examples=count, derandomize=True, deadline=None, phases=phases, suppress_health_check=checks, database=None
    )


# Evenly spread: hypothesis prefers small numbers, and rows that wait for nothing arrive in the order of their times.
chances = st.randoms(use_true_random=True)


@st.composite
def seconds(draw: st.DrawFn, edges: Sequence[int], least: int, most: int) -> timedelta:
    """Some seconds; edges are as likely as all that is between."""
    chance = draw(chances)
    return timedelta(seconds=chance.choice([chance.choice(edges), chance.randint(least, most)]))


times = seconds(range(0, 50 * 60, 5 * 60), 0, 50 * 60)
waits = seconds([0, 30 * 60 - 1], 0, 30 * 60 - 1)


@st.composite
def events(draw: st.DrawFn, source: str, rows: st.SearchStrategy[dict[str, Any]]) -> Event:
    """A row at a random time that arrives before it is late."""
    time = draw(times)
    return Event(source, time, time + draw(waits), draw(rows))


@st.composite
def cut(draw: st.DrawFn, all_events: st.SearchStrategy[list[Event]]) -> Case:
    """The events in the order of their arrival, in one to three batches."""
    arrived = sorted(draw(all_events), key=lambda event: event.arrives)
    chance, places = draw(chances), range(1, len(arrived))
    cuts = sorted(chance.sample(places, min(chance.randint(0, 2), len(places))))
    return [arrived[start:end] for start, end in zip([0, *cuts], [*cuts, len(arrived)], strict=True)]


def flushed(case: Case, *rows: tuple[str, dict[str, Any]]) -> Case:
    """The case with rows at the end that move the watermark far past it."""
    last = [Event(source, FAR, FAR, row) for source, row in rows]
    return [*case[:-1], [*case[-1], *last]]


def together(cases: Iterable[st.SearchStrategy[list[Event]]]) -> st.SearchStrategy[list[Event]]:
    """The events of several cases that know nothing of each other."""
    return st.tuples(*cases).map(lambda each: list(chain.from_iterable(each)))


def for_each_query(some: st.SearchStrategy[list[Event]]) -> st.SearchStrategy[list[Case]]:
    """Events, in the order of their arrival and cut into batches, for each query."""
    return st.lists(cut(some), min_size=QUERIES, max_size=QUERIES, unique_by=repr)


def cases_of(source: str, **columns: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Case]]:
    """A case of six to eight rows for each query."""
    some = st.lists(events(source, st.fixed_dictionaries(columns)), min_size=6, max_size=8)
    return for_each_query(some)


def starts(time: datetime, slide: timedelta) -> list[datetime]:
    """The beginnings of the windows that hold a time."""
    last = time - (time - FIRST_DAY) % slide
    return [last - back * slide for back in range(WINDOW // slide)]


def newest(rows: Iterable[dict[str, Any]], *keys: str) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The last row of each key."""
    return {tuple(row[key] for key in keys): row for row in rows}


trades = cases_of("trades", Type=st.sampled_from(["BUY", "SELL", "HOLD"]), Amount=st.integers(-5, 1000))


def totals(given: Iterable[dict[str, Any]]) -> dict[datetime, tuple[int, int]]:
    """Bought and sold by window, in the order of windows."""
    sums: dict[datetime, Counter[str]] = defaultdict(Counter)
    for row in given:
        sums[starts(row["time"], WINDOW)[0]][row["Type"]] += row["Amount"]
    return {start: (sums[start]["BUY"], sums[start]["SELL"]) for start in sorted(sums)}


@example("trades/trades.yaml")
@runs(6)
@given(cases=trades)
def test_the_newest_totals_of_each_window_are_the_sums_of_its_trades(lines, cases):
    def one(line: Line, case: Case) -> None:
        line.feed(case)

        found = newest(line.bench.rows("totals_topic"), "start").values()
        assert {row["start"]: (row["TotalBuy"], row["TotalSell"]) for row in found} == totals(line.given)
        assert all(row["end"] - row["start"] == WINDOW for row in found)
        assert line.bench.late_rows("totals_topic") == 0

    lines.check(cases, one)


@example("trades/net.yaml")
@runs(3)
@given(cases=trades)
def test_totals_run_over_all_windows_in_the_order_of_their_times(lines, cases):
    def one(line: Line, case: Case) -> None:
        line.feed(flushed(case, ("trades", {"Type": "BUY", "Amount": 1})))

        expected, bought, sold = [], 0, 0
        for start, (buy, sell) in totals(line.given).items():
            bought, sold = bought + buy, sold + sell
            if start + WINDOW <= line.watermark:
                expected.append((start, buy, sell, bought, sold, bought - sold))
        columns = ("start", "TotalBuy", "TotalSell", "RTotalBuy", "RTotalSell", "NetValue")
        assert [tuple(row[name] for name in columns) for row in line.bench.rows("net_topic")] == expected

    lines.check(cases, one)


def readings(sensor: str) -> st.SearchStrategy[list[Event]]:
    """What one sensor reads."""
    row = st.fixed_dictionaries({"SensorID": st.just(sensor), "Reading": st.integers(-40, 400).map(float)})
    return st.lists(events("readings", row), min_size=2, max_size=5)


@example("sensors/sensors.yaml")
@runs(3)
@given(cases=for_each_query(together(readings(f"S{number}") for number in range(APART))))
def test_the_newest_maximum_of_each_sliding_window_is_the_highest_of_its_readings(lines, cases):
    def one(line: Line, case: Case) -> None:
        line.feed(case)

        expected: dict[tuple[str, datetime], float] = {}
        for row in line.given:
            for start in starts(row["time"], 5 * MINUTE):
                key = (row["SensorID"], start)
                expected[key] = max(row["Reading"], expected.get(key, row["Reading"]))
        found = newest(line.bench.rows("board"), "SensorID", "start")
        assert {key: row["MaxReading"] for key, row in found.items()} == expected
        assert line.bench.late_rows("board") == 0

    lines.check(cases, one)


# From a minute before the impression to ten after the last click that counts, and often on the edges.
click_waits = seconds([-1, 0, 15 * 60, 15 * 60 + 1], -60, 25 * 60)


@st.composite
def advertisement(draw: st.DrawFn, key: str) -> list[Event]:
    """An impression and a click on it; either may be missing, or be sent twice with a while between."""
    shown_at = draw(times)
    clicked_at = shown_at + draw(click_waits)
    row = {"ImpressionID": key}
    shown = [Event("shown", shown_at, shown_at + wait, row) for wait in draw(st.lists(waits, max_size=2))]
    clicked = [Event("clicked", clicked_at, clicked_at + wait, row) for wait in draw(st.lists(waits, max_size=2))]
    return shown + clicked


def advertisements(case: int) -> st.SearchStrategy[list[Event]]:
    """Impressions and clicks of one case."""
    return together(advertisement(f"{case}.{number}") for number in range(3)).filter(bool)


def joined(line: Line) -> Iterator[tuple[str, datetime, datetime | None]]:
    """Each impression once, with the time of its click if that counts."""
    clicked = {row["ImpressionID"]: row["time"] for row in line.of("clicked")}
    for key, shown in {row["ImpressionID"]: row["time"] for row in line.of("shown")}.items():
        click = clicked.get(key)
        yield key, shown, click if click and shown <= click <= shown + 15 * MINUTE else None


@example("ads/ads.yaml")
@runs(3)
@given(cases=for_each_query(together(advertisements(case) for case in range(APART))))
def test_each_impression_is_joined_once_with_its_click_or_with_nulls(lines, cases):
    def one(line: Line, case: Case) -> None:
        line.feed(flushed(case, ("shown", {"ImpressionID": "far"}), ("clicked", {"ImpressionID": "farther"})))

        outcome = [each for each in joined(line) if each[2] or each[1] + 15 * MINUTE < line.watermark]
        columns = ("ImpressionID", "ImpressionTime", "ClickTime")
        found = {
            sink: sorted(tuple(row[name] for name in columns) for row in line.bench.rows(sink))
            for sink in ("clicked_topic", "outcome_topic")
        }
        assert found["outcome_topic"] == sorted(outcome)
        assert found["clicked_topic"] == sorted(each for each in outcome if each[2])

    lines.check(cases, one)


clicks = cases_of("events", site=st.sampled_from("abc"), action=st.sampled_from(["clicked", "viewed", "closed"]))


@example("clickstream/clickstream.yaml")
@runs(5)
@given(cases=clicks)
def test_the_counts_of_each_mode_come_to_the_same_in_the_end(lines, cases):
    def one(line: Line, case: Case) -> None:
        line.feed(case)

        counts = Counter(row["action"] for row in line.given)
        changed = newest(line.bench.rows("changed"), "action").values()
        assert {row["action"]: row["count"] for row in line.bench.rows("all")} == counts
        assert {row["action"]: row["count"] for row in changed} == counts
        records = Counter((row["site"], row["action"]) for row in line.bench.rows("records"))
        assert records == Counter((row["site"], row["action"]) for row in line.given)

    lines.check(cases, one)
