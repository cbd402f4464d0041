"""penstock preview: rows as they arrive, on a terminal or as JSON lines"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import click

from penstock.cli import print_status
from penstock.preview.query import Limits, Preview
from penstock.preview.request import PreviewRequest, messages, open_preview
from penstock.text import printable

_F = TypeVar("_F", bound=Callable[..., Any])
_WIDEST = 40


def options(command: _F) -> _F:
    """The options that `preview` and `sql` share."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="One JSON object per line: columns, rows, end."),
        click.option(
            "--per-second",
            type=click.IntRange(1, 10_000),
            default=200,
            show_default=True,
            help="Maximum rows per second.",
        ),
        click.option(
            "--seconds", type=click.FloatRange(1, 86_400), default=300, show_default=True, help="Stop after this time."
        ),
        click.option(
            "--rows",
            type=click.IntRange(1, 1_000_000),
            default=1000,
            show_default=True,
            help="Stop after this many rows.",
        ),
        click.option("--earliest", is_flag=True, help="From the beginning of the topics instead of from now on."),
    ):
        command = option(command)
    return command


def show(request: PreviewRequest, *, as_json: bool) -> None:
    """Print the rows of a preview until a limit, Ctrl-C or the end of the query."""
    os.umask(0o077)
    stopping = threading.Event()
    print_status("starting Spark; press Ctrl-C to stop")
    with open_preview(request, print_status, stopping.is_set) as preview:
        # Replaces the handler that the session installed, which would cancel the running batch.
        signal.signal(signal.SIGINT, lambda *_: stopping.set())
        if as_json:
            for message in messages(preview):
                click.echo(json.dumps(message))
            return
        _print(preview)
        print_status(f"ended: {preview.why()}")


def limits(rows: int, seconds: float, per_second: int) -> Limits:
    """The limits that the options set."""
    return Limits(rows, seconds, per_second)


def _print(preview: Preview) -> None:
    names = [name for name, _ in preview.columns]
    width = [len(name) for name in names]
    has_header = False
    for row_batch in preview.rows:
        cells = [[_cell(value) for value in row] for row in row_batch.rows]
        wider = [max([old, *(len(row[at]) for row in cells)]) for at, old in enumerate(width)]
        if row_batch.replaces or wider != width or not has_header:
            width, has_header = wider, True
            if row_batch.replaces:
                click.echo(f"-- batch {row_batch.batch}")
            click.echo("  ".join(name.ljust(width[at]) for at, name in enumerate(names)).rstrip())
        for row in cells:
            click.echo("  ".join(cell.ljust(width[at]) for at, cell in enumerate(row)).rstrip())
        if row_batch.left_out and row_batch.replaces:
            print_status(f"batch {row_batch.batch} has more rows; raise --rows to see them")
        elif row_batch.left_out:
            print_status(
                f"{row_batch.left_out:,} rows of batch {row_batch.batch} were skipped; raise --per-second or --rows"
            )


def _cell(value: Any) -> str:
    text = "" if value is None else value if isinstance(value, str) else json.dumps(value)
    text = printable(text)
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"


@click.command(short_help="Show the rows of a source or step live, without running the sinks.")
@click.argument("file", type=click.Path())
@click.argument("step", required=False)
@click.option("--bad", is_flag=True, help="Only the records of a source that cannot be decoded, and why.")
@options
def command(
    file: str, step: str | None, bad: bool, earliest: bool, rows: int, seconds: float, per_second: int, as_json: bool
) -> None:
    """Show the rows of a source or STEP of the pipeline in FILE live; by default of what the first sink reads.

    A separate query reads the sources; the pipeline's sinks and checkpoints are not touched.

    Example: penstock preview trades.yaml totals
    """
    start = "earliest" if earliest else "latest"
    request = PreviewRequest(file, step, start=start, bad=bad, limits=limits(rows, seconds, per_second))  # type: ignore[arg-type]
    show(request, as_json=as_json)
