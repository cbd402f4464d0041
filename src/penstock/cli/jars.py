"""penstock jars: list, fetch and verify jars."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column, Table

from penstock import jars


@click.group("jars", short_help="List, fetch and verify the jars of connectors and local services.")
def command() -> None:
    """List, fetch and verify the jars of connectors and local services.

    Example: penstock jars list
    """


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_(as_json: bool) -> None:
    """List the groups of jars, their sizes, and whether they are on this machine.

    Example: penstock jars list
    """
    groups = [_group(name) for name in jars.GROUPS]
    if as_json:
        click.echo(json.dumps({"folder": str(jars.cache_folder()), "groups": groups}, indent=2))
    else:
        Console().print(_table(groups))


@command.command()
@click.argument("groups", nargs=-1, metavar="[GROUP]...")
def fetch(groups: tuple[str, ...]) -> None:
    """Fetch the missing jars of GROUPs, or of all groups, and print their paths.

    Example: penstock jars fetch kafka delta
    """
    for path in fetch_with_progress(groups or jars.GROUPS):
        click.echo(path)


@command.command()
@click.argument("groups", nargs=-1, metavar="[GROUP]...")
def verify(groups: tuple[str, ...]) -> None:
    """Verify the checksums of the jars of GROUPs, or of all fetched groups.

    Example: penstock jars verify
    """
    chosen = groups or tuple(name for name in jars.GROUPS if _group(name)["state"] != "not fetched")
    bad = jars.verify(chosen)
    for problem in bad:
        click.echo(problem)
    if bad:
        click.echo(f"{len(bad)} missing or damaged; run `penstock jars fetch {' '.join(chosen)}`", err=True)
        sys.exit(1)
    click.echo(f"{len(jars.LOCK.jars(chosen))} jars verified ({', '.join(chosen) or 'no group was fetched'})")


@command.command()
def warm() -> None:
    """Create an archive of Spark's classes, once; later starts take about a third less time.

    Example: penstock jars warm
    """
    from penstock.spark.session import archive_file, make_archive

    if not archive_file().exists():
        click.echo("creating the archive of Spark's classes (about 20 s, once)", err=True)
        make_archive()
    click.echo(archive_file())


def fetch_with_progress(groups: Sequence[str]) -> list[Path]:
    """Fetch groups with progress on standard error: a bar on a terminal, a few lines elsewhere."""
    with _bar() if sys.stderr.isatty() else _lines() as progress:
        return jars.fetch(groups, progress)


@contextlib.contextmanager
def _bar() -> Iterator[jars.Progress]:
    one_line = Column(no_wrap=True)
    sizes = (BarColumn(bar_width=24), DownloadColumn(table_column=one_line), TimeRemainingColumn(compact=True))
    columns = (TextColumn("fetching jars"), *sizes, TextColumn("{task.description}", table_column=one_line))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None, visible=False)
        yield lambda jar, done, total: bar.update(
            task, description=jar.split(":")[1], completed=done, total=total, visible=True
        )


@contextlib.contextmanager
def _lines() -> Iterator[jars.Progress]:
    printed = -1

    def print_progress(jar: str, done_bytes: int, total_bytes: int) -> None:
        nonlocal printed
        quarter = 4 * done_bytes // max(total_bytes, 1)
        if quarter > printed:
            printed = quarter
            click.echo(f"fetching jars: {done_bytes / 1e6:.1f} of {total_bytes / 1e6:.1f} MB ({jar})", err=True)

    yield print_progress


def _group(name: str) -> dict[str, Any]:
    pinned, bad = jars.LOCK.jars([name]), jars.find_problems([name])
    absent = sum(problem.missing for problem in bad)
    state = "ready" if not bad else "not fetched" if absent == len(pinned) else f"{len(bad)} missing or damaged"
    entries = [{"jar": jar.coordinate, "bytes": jar.size_bytes, "sha256": jar.sha256} for jar in pinned]
    return {"group": name, "state": state, "bytes": sum(jar.size_bytes for jar in pinned), "jars": entries}


def _table(groups: Sequence[dict[str, Any]]) -> Table:
    table = Table("group", "jars", "MB", "state", box=None, title=str(jars.cache_folder()), title_justify="left")
    for group in groups:
        table.add_row(group["group"], str(len(group["jars"])), f"{group['bytes'] / 1e6:.1f}", group["state"])
    return table
