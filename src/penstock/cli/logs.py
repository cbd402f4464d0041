"""penstock logs"""

from __future__ import annotations

from collections import deque
from pathlib import Path

import click

from penstock.cli._find import find
from penstock.errors import CallError
from penstock.redaction import redact
from penstock.storage.layout import Storage
from penstock.text import printable


@click.command(short_help="Show the log of Spark's driver.")
@click.argument("which", metavar="NAME|FILE", type=click.Path())
@click.option("--storage", help="The storage of the pipeline (default: the nearest .penstock).")
@click.option(
    "-n", "--lines", "count", type=click.IntRange(1, 100_000), default=100, show_default=True, help="How many lines."
)
def command(which: str, storage: str | None, count: int) -> None:
    """Show the last lines of the driver's log of the pipeline with this NAME or FILE.

    Example: penstock logs trades -n 20
    """
    found = find(which, storage)
    for line in last_lines(Storage(f"{found.storage}/{found.name}").logs, count):
        click.echo(line)


def last_lines(folder: Path, count: int) -> list[str]:
    """The last lines of the driver's log, without secrets and control characters."""
    log = folder / "driver.log"
    if not log.is_file():
        raise CallError(f"{log} does not exist; run the pipeline on this machine first, or give --storage")
    with log.open(encoding="utf-8", errors="replace") as file:
        return [printable(redact(line.rstrip("\n")).replace("\t", "    ")) for line in deque(file, maxlen=count)]
