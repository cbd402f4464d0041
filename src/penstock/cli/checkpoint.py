"""penstock checkpoint: what batches left behind, looked at and put back without Spark."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import click

from penstock.cli import say
from penstock.cli._find import storage_of
from penstock.errors import CallError
from penstock.storage import files, restore
from penstock.storage.layout import Storage
from penstock.storage.lease import Taking
from penstock.storage.verify import SinkStorage, find_problems


@click.group("checkpoint", short_help="Verify, show, back up or restore a pipeline's checkpoints.")
def command() -> None:
    """Look at the checkpoints of a pipeline and at the records of its batches.

    Example: penstock checkpoint verify trades
    """


@command.command()
@click.argument("named", metavar="NAME|FILE", default=".", type=click.Path())
def verify(named: str) -> None:
    """Say whether the checkpoints still are what the records say; exit 1 if not.

    Example: penstock checkpoint verify trades
    """
    found = False
    for sink in _sinks(storage_of(named)):
        wrong = find_problems(sink)
        found = found or bool(wrong)
        for problem in wrong:
            click.echo(f"{sink.name}: {problem}")
        if not wrong:
            click.echo(f"{sink.name}: {_summary(sink)}: as it was left")
    sys.exit(1 if found else 0)


@command.command()
@click.argument("named", metavar="NAME|FILE", default=".", type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def show(named: str, as_json: bool) -> None:
    """Show the last batch of each sink and where its sources are.

    Example: penstock checkpoint show trades
    """
    shown = [_shown(sink) for sink in _sinks(storage_of(named))]
    if as_json:
        click.echo(json.dumps(shown, indent=2))
        return
    for each in shown:
        click.echo(f"{each['sink']}: {each['says']}, query {each['query'] or 'none yet'}")
        for position in each["positions"]:
            click.echo(f"  {json.dumps(position)}")


@command.command()
@click.argument("named", metavar="NAME|FILE", default=".", type=click.Path())
@click.option("--to", "place", type=click.Path(path_type=Path), help="An empty folder (default: in the storage).")
def backup(named: str, place: Path | None) -> None:
    """Copy the checkpoints and records of a pipeline that does not run, with checksums.

    Example: penstock checkpoint backup trades --to /backup/trades
    """
    storage = storage_of(named)
    with _alone(storage):
        target = place or Path(storage.url, "backups", f"{datetime.now(timezone.utc):%Y%m%d-%H%M%S}")
        count = restore.backup(storage.url, target)
    say(f"{count} files")
    click.echo(str(target))


@command.command("restore")
@click.argument("named", metavar="NAME|FILE", default=".", type=click.Path())
@click.option("--from", "place", type=click.Path(path_type=Path), help="A backup; without one, the batches' records.")
@click.option("--behind", is_flag=True, help="Also when batches were written since: they are written again.")
def restore_(named: str, place: Path | None, behind: bool) -> None:
    """Put damaged files of the checkpoints back, from the records or from a backup.

    Example: penstock checkpoint restore trades
    """
    storage = storage_of(named)
    with _alone(storage):
        sinks = _sinks(storage)
        if place is not None:
            click.echo(f"{restore.from_backup(sinks, storage.url, place, behind=behind)} files put back")
            return
        for sink in sinks:
            for name in restore.from_records(sink):
                click.echo(f"{sink.name}: {name}")
    wrong = [f"{sink.name}: {problem}" for sink in sinks for problem in find_problems(sink)]
    for text in wrong:
        say(text)
    sys.exit(1 if wrong else 0)


@contextmanager
def _alone(storage: Storage) -> Iterator[None]:
    lease = Taking(storage.lease, say).take()
    try:
        yield
    finally:
        lease.release()


def _sinks(storage: Storage) -> list[SinkStorage]:
    """Every sink that has a checkpoint or records here; the last record knows where its target's log is."""
    names = {*files.list_names(f"{storage.url}/ledger"), *files.list_names(f"{storage.url}/checkpoints")}
    found = []
    for name in sorted(each for each in names if not each.endswith(".json") and not each.startswith(".")):
        sink = SinkStorage(name, storage.url)
        known = sink.journal.numbers
        found.append(SinkStorage(name, storage.url, sink.journal.read(known[-1]).log_url if known else ""))
    if not found:
        raise CallError(f"{storage.url} has no checkpoint yet; run the pipeline first")
    return found


def _summary(sink: SinkStorage) -> str:
    commits = sink.checkpoint.numbers("commits")
    known = sink.journal.numbers
    if not commits:
        return "no batch yet"
    return f"{commits[-1] + 1:,} batches committed, {len(known)} of the last on record"


def _shown(sink: SinkStorage) -> dict[str, Any]:
    commits = sink.checkpoint.numbers("commits")
    return {
        "sink": sink.name,
        "says": _summary(sink),
        "query": sink.checkpoint.query,
        "last_batch": commits[-1] if commits else None,
        "positions": sink.checkpoint.offsets(commits[-1]) if commits else [],
        "receipts": {name: batch for name, (_, batch) in sink.targets().items()},
    }
