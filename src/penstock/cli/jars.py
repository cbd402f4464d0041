"""penstock jars: the jars that Penstock uses, and whether they are here."""

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


@click.group("jars")
def command() -> None:
    """See, fetch and verify the jars that Spark and the local services need.

    Example: penstock jars list
    """


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def list_(as_json: bool) -> None:
    """Show each group of jars, its size, and whether it is here.

    Example: penstock jars list
    """
    groups = [_group(name) for name in jars.GROUPS]
    if as_json:
        click.echo(json.dumps({"folder": str(jars.folder()), "groups": groups}, indent=2))
    else:
        Console().print(_table(groups))


@command.command()
@click.argument("groups", nargs=-1, metavar="[GROUP]...")
def fetch(groups: tuple[str, ...]) -> None:
    """Fetch the jars of some groups, or of all, that are not here yet; prints their files.

    Example: penstock jars fetch kafka delta
    """
    for path in fetch_with_progress(groups or jars.GROUPS):
        click.echo(path)


@command.command()
@click.argument("groups", nargs=-1, metavar="[GROUP]...")
def verify(groups: tuple[str, ...]) -> None:
    """Hash every jar of some groups, or of those that were fetched, and name the bad ones.

    Example: penstock jars verify
    """
    chosen = groups or tuple(name for name in jars.GROUPS if _group(name)["state"] != "not fetched")
    bad = jars.verify(chosen)
    for problem in bad:
        click.echo(problem)
    if bad:
        click.echo(f"{len(bad)} bad; run `penstock jars fetch {' '.join(chosen)}`", err=True)
        sys.exit(1)
    click.echo(f"{len(jars.LOCK.jars(chosen))} jars are as pinned ({', '.join(chosen) or 'no group was fetched'})")


@command.command()
def warm() -> None:
    """Make an archive of Spark's classes, once: every later start takes about a third less time.

    Example: penstock jars warm
    """
    from penstock.spark.archive import archive_file, make_archive

    if not archive_file().exists():
        click.echo("making the start-up archive of Spark's classes (about 20 s, once)", err=True)
        make_archive()
    click.echo(archive_file())


def fetch_with_progress(groups: Sequence[str]) -> list[Path]:
    """Fetch groups while stderr shows how far it is: a bar on a terminal, a few lines elsewhere."""
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
    said = -1

    def say(jar: str, done_bytes: int, total_bytes: int) -> None:
        nonlocal said
        quarter = 4 * done_bytes // max(total_bytes, 1)
        if quarter > said:
            said = quarter
            click.echo(f"fetching jars: {done_bytes / 1e6:.1f} of {total_bytes / 1e6:.1f} MB ({jar})", err=True)

    yield say


def _group(name: str) -> dict[str, Any]:
    pinned, bad = jars.LOCK.jars([name]), jars.problems([name])
    absent = sum(problem.missing for problem in bad)
    state = "ready" if not bad else "not fetched" if absent == len(pinned) else f"{len(bad)} missing or damaged"
    entries = [{"jar": jar.coordinate, "bytes": jar.size_bytes, "sha256": jar.sha256} for jar in pinned]
    return {"group": name, "state": state, "bytes": sum(jar.size_bytes for jar in pinned), "jars": entries}


def _table(groups: Sequence[dict[str, Any]]) -> Table:
    table = Table("group", "jars", "MB", "state", box=None, title=str(jars.folder()), title_justify="left")
    for group in groups:
        table.add_row(group["group"], str(len(group["jars"])), f"{group['bytes'] / 1e6:.1f}", group["state"])
    return table
