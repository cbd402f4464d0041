"""Rows as they arrive, on a terminal or as JSON lines."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import click

from penstock.cli import say
from penstock.preview.query import Limits, Preview
from penstock.preview.request import PreviewRequest, messages, open_preview
from penstock.watch.status import plain

_F = TypeVar("_F", bound=Callable[..., Any])
_WIDEST = 40


def options(command: _F) -> _F:
    """What both commands can be told."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="A JSON object a line: columns, rows, end."),
        click.option(
            "--per-second",
            type=click.IntRange(1, 10_000),
            default=200,
            show_default=True,
            help="Rows a second, at most.",
        ),
        click.option(
            "--seconds", type=click.FloatRange(1, 86_400), default=300, show_default=True, help="End after so long."
        ),
        click.option(
            "--rows", type=click.IntRange(1, 1_000_000), default=1000, show_default=True, help="End after so many rows."
        ),
        click.option("--earliest", is_flag=True, help="From the beginning of the topics instead of from now on."),
    ):
        command = option(command)
    return command


def show(wanted: PreviewRequest, *, as_json: bool) -> None:
    """Show what is wanted until a limit, Ctrl-C or the end."""
    os.umask(0o077)
    stopping = threading.Event()
    say("starting Spark; Ctrl-C ends")
    with open_preview(wanted, say, stopping.is_set) as looked:
        # Only now: Spark's own handler of Ctrl-C, set with the session, would cancel the running batch.
        signal.signal(signal.SIGINT, lambda *_: stopping.set())
        if as_json:
            for message in messages(looked):
                click.echo(json.dumps(message))
            return
        _print(looked)
        say(f"ended: {looked.why()}")


def limits(rows: int, seconds: float, per_second: int) -> Limits:
    """The limits as the options say them."""
    return Limits(rows, seconds, per_second)


def _print(looked: Preview) -> None:
    names = [name for name, _ in looked.columns]
    width = [len(name) for name in names]
    begun = False
    for shown in looked.rows:
        cells = [[_cell(value) for value in row] for row in shown.rows]
        wider = [max([old, *(len(row[at]) for row in cells)]) for at, old in enumerate(width)]
        if shown.replaces or wider != width or not begun:
            width, begun = wider, True
            if shown.replaces:
                click.echo(f"-- batch {shown.batch}")
            click.echo("  ".join(name.ljust(width[at]) for at, name in enumerate(names)).rstrip())
        for row in cells:
            click.echo("  ".join(cell.ljust(width[at]) for at, cell in enumerate(row)).rstrip())
        if shown.left_out and shown.replaces:
            say(f"batch {shown.batch} has more rows; --rows shows more")
        elif shown.left_out:
            say(f"{shown.left_out:,} rows of batch {shown.batch} were left out; --per-second and --rows allow more")


def _cell(value: Any) -> str:
    text = "" if value is None else value if isinstance(value, str) else json.dumps(value)
    text = plain(text)
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"
