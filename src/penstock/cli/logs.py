"""penstock logs"""

from __future__ import annotations

from collections import deque
from pathlib import Path

import click

from penstock.cli._find import place
from penstock.errors import CallError
from penstock.redaction import redact
from penstock.storage.layout import Storage
from penstock.watch.status import plain


@click.command(short_help="Show what Spark's driver has logged.")
@click.argument("which", metavar="NAME|FILE", type=click.Path())
@click.option("--storage", help="Where the pipeline keeps its events (default: the nearest .penstock).")
@click.option(
    "-n", "--lines", "count", type=click.IntRange(1, 100_000), default=100, show_default=True, help="How many."
)
def command(which: str, storage: str | None, count: int) -> None:
    """Show the last lines that Spark's driver has logged for the pipeline with this NAME or FILE.

    Example: penstock logs trades -n 20
    """
    found = place(which, storage)
    for line in last_lines(Storage(f"{found.storage}/{found.name}").logs, count):
        click.echo(line)


def last_lines(folder: Path, count: int) -> list[str]:
    """The last lines of the driver's log, safe for a terminal."""
    log = folder / "driver.log"
    if not log.is_file():
        raise CallError(f"there is no {log}; run the pipeline on this machine first, or give --storage")
    with log.open(encoding="utf-8", errors="replace") as file:
        return [plain(redact(line.rstrip("\n")).replace("\t", "    ")) for line in deque(file, maxlen=count)]
