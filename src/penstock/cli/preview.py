"""penstock preview"""

from __future__ import annotations

import click

from penstock.cli import _preview
from penstock.preview.request import PreviewRequest


@click.command(short_help="Show the rows of a source or step live, without running the sinks.")
@click.argument("file", type=click.Path())
@click.argument("step", required=False)
@click.option("--bad", is_flag=True, help="Only the records of a source that cannot be decoded, and why.")
@_preview.options
def command(
    file: str, step: str | None, bad: bool, earliest: bool, rows: int, seconds: float, per_second: int, as_json: bool
) -> None:
    """Show the rows of a source or STEP of the pipeline in FILE live; by default of what the first sink reads.

    A separate query reads the sources; the pipeline's sinks and checkpoints are not touched.

    Example: penstock preview trades.yaml totals
    """
    start = "earliest" if earliest else "latest"
    request = PreviewRequest(file, step, start=start, bad=bad, limits=_preview.limits(rows, seconds, per_second))  # type: ignore[arg-type]
    _preview.show(request, as_json=as_json)
