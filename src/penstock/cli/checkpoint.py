"""penstock checkpoint: verify, show, back up and restore checkpoints without Spark."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import click

from penstock.cli import print_status
from penstock.cli._find import storage_of
from penstock.errors import CallError
from penstock.storage import restore
from penstock.storage.layout import Storage
from penstock.storage.lease import LeaseAcquirer
from penstock.storage.verify import SinkStorage, find_problems


@click.group("checkpoint", short_help="Verify, show, back up or restore a pipeline's checkpoints.")
def command() -> None:
    """Inspect, back up and restore the checkpoints and batch records of a pipeline.

    Example: penstock checkpoint verify trades
    """


@command.command()
@click.argument("named", metavar="NAME|FILE", default=".", type=click.Path())
def verify(named: str) -> None:
    """Compare the checkpoints with the batch records; exit 1 if they differ.

    Example: penstock checkpoint verify trades
    """
    found = False
    for sink in _sinks(storage_of(named)):
        wrong = find_problems(sink)
        found = found or bool(wrong)
        for problem in wrong:
            click.echo(f"{sink.name}: {problem}")
        if not wrong:
            click.echo(f"{sink.name}: {_summary(sink)}: intact")
    sys.exit(1 if found else 0)


@command.command()
@click.argument("named", metavar="NAME|FILE", default=".", type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def show(named: str, as_json: bool) -> None:
    """Show the last batch of each sink and the offsets of its sources.

    Example: penstock checkpoint show trades
    """
    shown = [_as_dict(sink) for sink in _sinks(storage_of(named))]
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
    """Copy the checkpoints and batch records of a stopped pipeline, with checksums.

    Example: penstock checkpoint backup trades --to /backup/trades
    """
    storage = storage_of(named)
    with _alone(storage):
        target = place or Path(storage.backup(f"{datetime.now(timezone.utc):%Y%m%d-%H%M%S}"))
        count = restore.backup(storage, target)
    print_status(f"{count} files")
    click.echo(str(target))


@command.command("restore")
@click.argument("named", metavar="NAME|FILE", default=".", type=click.Path())
@click.option("--from", "place", type=click.Path(path_type=Path), help="A backup (default: the batch records).")
@click.option("--behind", is_flag=True, help="Restore even if batches were written since; they will be written again.")
def restore_(named: str, place: Path | None, behind: bool) -> None:
    """Restore damaged checkpoint files from the batch records or a backup.

    Example: penstock checkpoint restore trades
    """
    storage = storage_of(named)
    with _alone(storage):
        sinks = _sinks(storage)
        if place is not None:
            click.echo(f"{restore.from_backup(sinks, storage, place, behind=behind)} files restored")
            return
        for sink in sinks:
            for name in restore.from_journal(sink):
                click.echo(f"{sink.name}: {name}")
    wrong = [f"{sink.name}: {problem}" for sink in sinks for problem in find_problems(sink)]
    for text in wrong:
        print_status(text)
    sys.exit(1 if wrong else 0)


@contextmanager
def _alone(storage: Storage) -> Iterator[None]:
    lease = LeaseAcquirer(storage.lease, print_status).acquire()
    try:
        yield
    finally:
        lease.release()


def _sinks(storage: Storage) -> list[SinkStorage]:
    """Every sink with a checkpoint or records; the last record has the location of its target's log."""
    found = []
    for name in storage.sink_names():
        journal = SinkStorage(name, storage).journal
        last = journal.last()
        found.append(SinkStorage(name, storage, last.log_url if last else ""))
    if not found:
        raise CallError(f"{storage.url} has no checkpoint yet; run the pipeline first")
    return found


def _summary(sink: SinkStorage) -> str:
    commits = sink.checkpoint.numbers("commits")
    known = sink.journal.numbers
    if not commits:
        return "no batch yet"
    return f"{commits[-1] + 1:,} batches committed, the last {len(known)} recorded"


def _as_dict(sink: SinkStorage) -> dict[str, Any]:
    commits = sink.checkpoint.numbers("commits")
    return {
        "sink": sink.name,
        "says": _summary(sink),
        "query": sink.checkpoint.query,
        "last_batch": commits[-1] if commits else None,
        "positions": sink.checkpoint.offsets(commits[-1]) if commits else [],
        "receipts": {name: entry.batch for name, entry in sink.targets().items()},
    }
