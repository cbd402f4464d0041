"""penstock history"""

from __future__ import annotations

import json
from collections import deque

import click

from penstock.cli import print_status
from penstock.cli._find import storage_of
from penstock.events import EventTail
from penstock.watch.terminal import damaged_lines, history_lines


@click.command(short_help="Show what happened to a pipeline: starts, stops, restarts and their reasons, gaps.")
@click.argument("named", metavar="NAME|FILE", default=".", type=click.Path())
@click.option("-n", "--lines", "most", type=click.IntRange(1), help="Only the last lines.")
@click.option("--json", "as_json", is_flag=True, help="Print the events as JSON, one object per line.")
def command(named: str, most: int | None, as_json: bool) -> None:
    """Show the history of a pipeline, one line per event, oldest first.

    Example: penstock history trades -n 20
    """
    tail = EventTail(storage_of(named).events)
    events = tail.read_new()
    lines = (json.dumps(event) for event in events) if as_json else history_lines(events)
    for text in lines if most is None else deque(lines, most):
        click.echo(text)
    if tail.broken:
        print_status(damaged_lines(tail.broken))
