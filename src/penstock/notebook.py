"""Live streams in a notebook: a table or a chart under the cell, until the cell ends.

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
from penstock.preview import query as previews
from penstock.preview.query import Limits, Preview, RowBatch, plain_value

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Chart = Literal["table", "bar", "line"]
_MAX_ROWS_SHOWN = 50
_MAX_BARS = 60
_WIDTH, _HEIGHT, _BLUE = 640, 220, "#1769aa"


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
) -> Displayed:
    """Show a stream, or a source or step of a pipeline, under this cell as rows arrive.

    It ends when the cell is interrupted, or after so many rows, seconds or updates; its query ends with it. Returns
    the rows shown last. Without `y` a chart shows the count of rows.
    """
    limits = Limits(rows=rows, seconds=seconds, per_second=1000, updates=updates)
    view = View(chart, x, y)
    handle = _handle()
    try:
        with _open_preview(what, step, limits) as preview:
            view.begin(preview)
            _update(handle, view)
            for batch in preview.rows:
                view.add(batch)
                _update(handle, view)
            view.ended = preview.why()
    except KeyboardInterrupt:
        view.ended = "stopped"
    _update(handle, view)
    return view.displayed


@dataclass(frozen=True)
class Displayed:
    """The rows that a display showed last, and why it ended."""

    columns: list[str]
    rows: list[list[Any]]
    why: str


@dataclass
class View:
    """The rows received so far, as HTML; every value is escaped."""

    chart: Chart = "table"
    x: str | None = None
    y: str | None = None
    columns: list[str] = field(default_factory=list)
    rows: list[list[Any]] = field(default_factory=list)
    replaces: bool = False
    ended: str = ""
    mode: str = ""
    arrived: int = 0

    def begin(self, preview: Preview) -> None:
        """Take over the columns of a preview; CallError if `x` or `y` is not one of them."""
        self.mode = preview.mode
        self.columns = [name for name, _ in preview.columns]
        for name in (self.x, self.y):
            if name is not None and name not in self.columns:
                raise CallError(f"unknown column {name!r}; the stream has {', '.join(self.columns)}")
        times = [name for name, kind in preview.columns if kind.startswith(("timestamp", "date"))]
        self.x = self.x or next(iter(times), self.columns[0])

    def add(self, batch: RowBatch) -> None:
        """Add new rows, or replace the result with a newer one."""
        self.arrived = len(batch.rows) if batch.replaces else self.arrived + len(batch.rows)
        self.replaces = batch.replaces
        self.rows = batch.rows if batch.replaces else [*self.rows, *batch.rows][-10_000:]

    @property
    def displayed(self) -> Displayed:
        """The rows and the state now."""
        return Displayed(self.columns, self.rows, self.ended)

    def html(self) -> str:
        """The table or the chart, with a status line."""
        status = f"ended: {self.ended}" if self.ended else "live; interrupt the cell to end"
        content = _table(self) if self.chart == "table" else _draw_chart(self)
        what = "rows in the result" if self.replaces else "rows have arrived"
        return f"<div class='penstock'>{content}<p>{self.arrived:,} {what}; {html.escape(status)}</p></div>"

    def values(self) -> dict[str, float]:
        """The value of each category: the count of its rows or the sum of a column.

        In mode update a row is sent again whenever it changes, so only its latest value counts.
        """
        across = self.columns.index(self.x or self.columns[0])
        up = self.columns.index(self.y) if self.y else None
        by_category: dict[str, float] = {}
        for row in self.rows:
            name = _text(row[across])
            before = 0 if up is not None and self.mode == "update" else by_category.get(name, 0)
            by_category[name] = before + (1 if up is None else _number(row[up]))
        return dict(sorted(by_category.items())[-_MAX_BARS:])


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext penstock.notebook` gives `%%sql`: a SELECT over temporary views, live if one of them is a stream."""
    shell.register_magic_function(_sql_magic(shell), "cell", "sql")


def _sql_magic(shell: Any) -> Callable[[str, str], Displayed | None]:
    def sql(line: str, cell: str) -> Displayed | None:
        """%%sql [table|bar|line] [x=COLUMN] [y=COLUMN] [rows=N] [seconds=N] [updates=N]"""
        options = _parse_line(line)
        rows = _session(shell).sql(cell.strip().rstrip(";"))
        if not rows.isStreaming:
            return display_table(rows)
        return display(rows, **options)

    return sql


def display_table(rows: DataFrame) -> Displayed:
    """Show the rows of a batch DataFrame once."""
    values = [[plain_value(value) for value in row] for row in rows.limit(1000).collect()]
    view = View(columns=rows.columns, rows=values, replaces=True, ended="not a stream", arrived=len(values))
    _update(_handle(), view)
    return view.displayed


def _parse_line(line: str) -> dict[str, Any]:
    options: dict[str, Any] = {}
    for word in line.split():
        key, equals, value = word.partition("=")
        if not equals and key in ("table", "bar", "line"):
            options["chart"] = key
        elif equals and key in ("x", "y"):
            options[key] = value
        elif equals and key in ("rows", "seconds", "updates") and value.isdigit():
            options[key] = int(value)
        else:
            raise CallError(
                f"%%sql does not know {word!r}; write table, bar or line, x=, y=, rows=, seconds= or updates="
            )
    return options


def _session(shell: Any) -> SparkSession:
    from pyspark.sql import SparkSession

    spark = shell.user_ns.get("spark") or SparkSession.getActiveSession()
    if spark is None:
        raise CallError("no Spark session; create one and call it 'spark'")
    return spark


def _open_preview(what: DataFrame | Pipeline, step: str | None, limits: Limits) -> AbstractContextManager[Preview]:
    if not isinstance(what, Pipeline):
        if step is not None:
            raise CallError("a step belongs to a pipeline; give the pipeline first, or the stream alone")
        return previews.preview_rows(what, limits)
    from pyspark.sql import SparkSession

    spark = SparkSession.getActiveSession()
    if spark is None:
        raise CallError("no active Spark session; create one first: SparkSession.builder.getOrCreate()")
    from penstock.engine import prepare

    frozen = what.freeze()
    name = previews.find_stream(frozen, step)
    needed = prepare(previews.subgraph(frozen, name, "earliest", limits), lambda _: None)
    return previews.preview(needed, spark, name, limits)


def _handle() -> Any:
    from IPython.display import display as show

    return show({"text/plain": "waiting for rows"}, raw=True, display_id=True)  # type: ignore[no-untyped-call]


def _update(handle: Any, view: View) -> None:
    plain = json.dumps({"columns": view.columns, "rows": view.rows[-_MAX_ROWS_SHOWN:], "ended": view.ended})
    if handle is not None:
        handle.update({"text/html": view.html(), "text/plain": plain}, raw=True)


def _table(view: View) -> str:
    head = "".join(f"<th>{html.escape(name)}</th>" for name in view.columns)
    rows = view.rows[:_MAX_ROWS_SHOWN] if view.replaces else view.rows[: -_MAX_ROWS_SHOWN - 1 : -1]
    body = "".join(f"<tr>{''.join(f'<td>{html.escape(_text(value))}</td>' for value in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _draw_chart(view: View) -> str:
    values = view.values()
    most = max([*values.values(), 1.0])
    step = _WIDTH / max(1, len(values))
    points = [
        (number * step, _HEIGHT * value / most, name, value) for number, (name, value) in enumerate(values.items())
    ]
    marks = _bars(points, step) if view.chart == "bar" else _line(points, step)
    label = html.escape(f"{view.y or 'count of rows'} by {view.x}", quote=True)
    ends = f"<text x='0' y='{_HEIGHT + 16}'>{html.escape(next(iter(values), ''))}</text>"
    size = f"viewBox='0 -8 {_WIDTH} {_HEIGHT + 30}' width='{_WIDTH}'"
    return f"<svg {size} role='img' aria-label='{label}'>{marks}{ends}</svg>"


def _bars(points: list[tuple[float, float, str, float]], step: float) -> str:
    wide = max(1.0, step * 0.8)
    return "".join(
        f"<rect x='{x:.1f}' y='{_HEIGHT - high:.1f}' width='{wide:.1f}' height='{high:.1f}' fill='{_BLUE}'>"
        f"<title>{html.escape(f'{name}: {value:g}')}</title></rect>"
        for x, high, name, value in points
    )


def _line(points: list[tuple[float, float, str, float]], step: float) -> str:
    path = " ".join(f"{x + step / 2:.1f},{_HEIGHT - high:.1f}" for x, high, _, _ in points)
    return f"<polyline points='{path}' fill='none' stroke='{_BLUE}' stroke-width='2'/>"


def _text(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return 0.0


__all__: list[str] = ["Displayed", "View", "display", "display_table", "load_ipython_extension"]
