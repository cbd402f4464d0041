"""penstock preview"""

from __future__ import annotations

import click

from penstock.cli import _preview as _look
from penstock.preview.request import PreviewRequest


@click.command(short_help="See rows of a source or step arrive, without running the sinks.")
@click.argument("file", type=click.Path())
@click.argument("step", required=False)
@click.option("--bad", is_flag=True, help="Only records of a source that cannot be decoded, and why.")
@_look.options
def command(
    file: str, step: str | None, bad: bool, earliest: bool, rows: int, seconds: float, per_second: int, as_json: bool
) -> None:
    """See the rows of a source or STEP of the pipeline in FILE arrive; by default of what the first sink reads.

    A query of its own reads the sources; sinks and checkpoints of the pipeline are not touched.

    Example: penstock preview trades.yaml totals
    """
    start = "earliest" if earliest else "latest"
    wanted = PreviewRequest(file, step, start=start, bad=bad, limits=_look.limits(rows, seconds, per_second))  # type: ignore[arg-type]
    _look.show(wanted, as_json=as_json)
