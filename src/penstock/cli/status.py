"""penstock status"""

from __future__ import annotations

import json
import time

import click

from penstock.cli._find import find


@click.command(short_help="Show the status of pipelines: state, rates, lag, errors.")
@click.argument("which", metavar="[NAME|FILE]", required=False, type=click.Path())
@click.option("--storage", help="The storage of the pipelines (default: the nearest .penstock).")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(which: str | None, storage: str | None, as_json: bool) -> None:
    """Show the status of the pipeline with this NAME or FILE, or of every pipeline of a storage, from the event logs.

    Example: penstock status trades.yaml
    """
    from penstock.watch.terminal import lines

    now = time.time()
    views = find(which, storage).board().views(now)
    if as_json:
        click.echo(json.dumps([view.as_dict() for view in views], indent=2))
        return
    if not views:
        click.echo("no pipeline has run here yet")
    for view in views:
        click.echo("\n".join(lines(view, now)))
