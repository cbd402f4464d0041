"""penstock history"""

from __future__ import annotations

import json
from collections import deque

import click

from penstock.cli._find import storage_of
from penstock.events import EventTail
from penstock.watch.history import story


@click.command(short_help="Tell what happened to a pipeline: starts, stops, restarts and why, gaps.")
@click.argument("named", metavar="NAME|FILE", default=".", type=click.Path())
@click.option("-n", "--lines", "most", type=click.IntRange(1), help="Only the last so many lines.")
@click.option("--json", "as_json", is_flag=True, help="The events themselves, one JSON object a line.")
def command(named: str, most: int | None, as_json: bool) -> None:
    """Tell the story of a pipeline in plain lines, oldest first.

    Example: penstock history trades -n 20
    """
    events = EventTail(f"{storage_of(named).url}/events").new()
    lines = (json.dumps(event) for event in events) if as_json else story(events)
    for text in lines if most is None else deque(lines, most):
        click.echo(text)
