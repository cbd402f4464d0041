"""Live streams in a notebook: a table or a chart under the cell, which ends with the cell.

from penstock.notebook import display
display(stream)                        a streaming DataFrame, until the cell is interrupted
%load_ext penstock.notebook            then %%sql over temporary views
"""

from __future__ import annotations

import html
import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from penstock.errors import CallError
from penstock.pipeline import Pipeline
from penstock.preview import query as _engine
from penstock.preview.query import Limits, Preview, RowBatch
from penstock.preview.values import plain_value

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Chart = Literal["table", "bar", "line"]
_SHOWN = 50
_BARS = 60
_WIDE, _HIGH, _BLUE = 640, 220, "#1769aa"


def display(
    what: DataFrame | Pipeline,
    step: str | None = None,
    *,
    chart: Chart = "table",
    x: str | None = None,
    y: str | None = None,
    rows: int = 100_000,
    seconds: float = 3600.0,
    updates: int = 0,
) -> Seen:
    """Show a stream, or a source or step of a pipeline, under this cell as rows arrive.

    It ends when the cell is interrupted, or after so many rows, seconds or updates; its query ends with it. What was
    seen last is returned. `y` is a column, or left out for the count of rows.
    """
    limits = Limits(rows=rows, seconds=seconds, per_second=1000, updates=updates)
    view = View(chart, x, y)
    handle = _handle()
    looking = _looking(what, step, limits)
    try:
        with looking as looked:
            view.begin(looked)
            _update(handle, view)
            for shown in looked.rows:
                view.take(shown)
                _update(handle, view)
            view.ended = looked.why()
    except KeyboardInterrupt:
        view.ended = "stopped"
    _update(handle, view)
    return view.seen


@dataclass(frozen=True)
class Seen:
    """What a display has shown when it ended."""

    columns: list[str]
    rows: list[list[Any]]
    why: str


@dataclass
class View:
    """Rows that have arrived, and how they look as HTML; every value is escaped."""

    chart: Chart = "table"
    x: str | None = None
    y: str | None = None
    columns: list[str] = field(default_factory=list)
    rows: list[list[Any]] = field(default_factory=list)
    replaces: bool = False
    ended: str = ""
    mode: str = ""
    arrived: int = 0

    def begin(self, looked: Preview) -> None:
        """The columns are known."""
        self.mode = looked.mode
        self.columns = [name for name, _ in looked.columns]
        for name in (self.x, self.y):
            if name is not None and name not in self.columns:
                raise CallError(f"there is no column {name!r} to draw; the stream has {', '.join(self.columns)}")
        times = [name for name, kind in looked.columns if kind.startswith(("timestamp", "date"))]
        self.x = self.x or next(iter(times), self.columns[0])

    def take(self, shown: RowBatch) -> None:
        """Rows that arrived, or the whole result anew."""
        self.arrived = len(shown.rows) if shown.replaces else self.arrived + len(shown.rows)
        self.replaces = shown.replaces
        self.rows = shown.rows if shown.replaces else [*self.rows, *shown.rows][-10_000:]

    @property
    def seen(self) -> Seen:
        """What there is now."""
        return Seen(self.columns, self.rows, self.ended)

    def html(self) -> str:
        """The table or the chart, and a line about where it stands."""
        stands = f"ended: {self.ended}" if self.ended else "live; interrupt the cell to end"
        drawn = _table(self) if self.chart == "table" else _drawn(self)
        what = "rows in the result" if self.replaces else "rows have arrived"
        return f"<div class='penstock'>{drawn}<p>{self.arrived:,} {what}; {html.escape(stands)}</p></div>"

    def values(self) -> dict[str, float]:
        """What is drawn for each category: the count of its rows or the sum of a column.

        In mode update a row is sent again whenever it changes, so its latest value counts.
        """
        across = self.columns.index(self.x or self.columns[0])
        up = self.columns.index(self.y) if self.y else None
        found: dict[str, float] = {}
        for row in self.rows:
            name = _text(row[across])
            before = 0 if up is not None and self.mode == "update" else found.get(name, 0)
            found[name] = before + (1 if up is None else _number(row[up]))
        return dict(sorted(found.items())[-_BARS:])


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext penstock.notebook` gives `%%sql`: a SELECT over temporary views, live if one of them is a stream."""
    shell.register_magic_function(_sql_magic(shell), "cell", "sql")


def _sql_magic(shell: Any) -> Callable[[str, str], Seen | None]:
    def sql(line: str, cell: str) -> Seen | None:
        """%%sql [table|bar|line] [x=COLUMN] [y=COLUMN] [rows=N] [seconds=N] [updates=N]"""
        told = _told(line)
        rows = _session(shell).sql(cell.strip().rstrip(";"))
        if not rows.isStreaming:
            return display_table(rows)
        return display(rows, **told)

    return sql


def display_table(rows: DataFrame) -> Seen:
    """Rows that are no stream, once."""
    found = [[plain_value(value) for value in row] for row in rows.limit(1000).collect()]
    view = View(columns=rows.columns, rows=found, replaces=True, ended="it is no stream", arrived=len(found))
    _update(_handle(), view)
    return view.seen


def _told(line: str) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for word in line.split():
        key, equals, value = word.partition("=")
        if not equals and key in ("table", "bar", "line"):
            told["chart"] = key
        elif equals and key in ("x", "y"):
            told[key] = value
        elif equals and key in ("rows", "seconds", "updates") and value.isdigit():
            told[key] = int(value)
        else:
            raise CallError(
                f"%%sql does not know {word!r}; write table, bar or line, x=, y=, rows=, seconds= or updates="
            )
    return told


def _session(shell: Any) -> SparkSession:
    from pyspark.sql import SparkSession

    spark = shell.user_ns.get("spark") or SparkSession.getActiveSession()
    if spark is None:
        raise CallError("there is no Spark session; make one and call it 'spark'")
    return spark


def _looking(what: DataFrame | Pipeline, step: str | None, limits: Limits) -> AbstractContextManager[Preview]:
    if not isinstance(what, Pipeline):
        if step is not None:
            raise CallError("a step belongs to a pipeline; give the pipeline first, or the stream alone")
        return _engine.preview_rows(what, limits)
    from pyspark.sql import SparkSession

    spark = SparkSession.getActiveSession()
    if spark is None:
        raise CallError("there is no Spark session; make one first: SparkSession.builder.getOrCreate()")
    from penstock.engine import prepare

    frozen = what.freeze()
    name = _engine.stream_named(frozen, step)
    needed = prepare(_engine.subgraph(frozen, name, "earliest", limits), lambda _: None)
    return _engine.preview(needed, spark, name, limits)


def _handle() -> Any:
    from IPython.display import display as show

    return show({"text/plain": "waiting for rows"}, raw=True, display_id=True)  # type: ignore[no-untyped-call]


def _update(handle: Any, view: View) -> None:
    plain = json.dumps({"columns": view.columns, "rows": view.rows[-_SHOWN:], "ended": view.ended})
    if handle is not None:
        handle.update({"text/html": view.html(), "text/plain": plain}, raw=True)


def _table(view: View) -> str:
    head = "".join(f"<th>{html.escape(name)}</th>" for name in view.columns)
    rows = view.rows[:_SHOWN] if view.replaces else view.rows[: -_SHOWN - 1 : -1]
    body = "".join(f"<tr>{''.join(f'<td>{html.escape(_text(value))}</td>' for value in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _drawn(view: View) -> str:
    values = view.values()
    most = max([*values.values(), 1.0])
    step = _WIDE / max(1, len(values))
    points = [(number * step, _HIGH * value / most, name, value) for number, (name, value) in enumerate(values.items())]
    marks = _bars(points, step) if view.chart == "bar" else _line(points, step)
    label = html.escape(f"{view.y or 'count of rows'} by {view.x}", quote=True)
    ends = f"<text x='0' y='{_HIGH + 16}'>{html.escape(next(iter(values), ''))}</text>"
    return (
        f"<svg viewBox='0 -8 {_WIDE} {_HIGH + 30}' width='{_WIDE}' role='img' aria-label='{label}'>{marks}{ends}</svg>"
    )


def _bars(points: list[tuple[float, float, str, float]], step: float) -> str:
    wide = max(1.0, step * 0.8)
    return "".join(
        f"<rect x='{x:.1f}' y='{_HIGH - high:.1f}' width='{wide:.1f}' height='{high:.1f}' fill='{_BLUE}'>"
        f"<title>{html.escape(f'{name}: {value:g}')}</title></rect>"
        for x, high, name, value in points
    )


def _line(points: list[tuple[float, float, str, float]], step: float) -> str:
    path = " ".join(f"{x + step / 2:.1f},{_HIGH - high:.1f}" for x, high, _, _ in points)
    return f"<polyline points='{path}' fill='none' stroke='{_BLUE}' stroke-width='2'/>"


def _text(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return 0.0


__all__: list[str] = ["Seen", "View", "display", "display_table", "load_ipython_extension"]
