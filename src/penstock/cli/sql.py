"""penstock sql"""

from __future__ import annotations

import click

from penstock.cli.preview import limits, options, show
from penstock.preview.request import PreviewRequest


@click.command(short_help="Query live streams with a SELECT.")
@click.argument("file", type=click.Path())
@click.argument("select")
@options
def command(file: str, select: str, earliest: bool, rows: int, seconds: float, per_second: int, as_json: bool) -> None:
    """Query the sources and steps of the pipeline in FILE with one SELECT; an aggregate is shown after each batch.

    Example: penstock sql trades.yaml "SELECT Type, count(*) AS n FROM trades GROUP BY Type"
    """
    start = "earliest" if earliest else "latest"
    request = PreviewRequest(file, sql=select, start=start, limits=limits(rows, seconds, per_second))  # type: ignore[arg-type]
    show(request, as_json=as_json)
