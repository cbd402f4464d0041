"""penstock checkpoint: verify, show, back up and restore checkpoints without Spark."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from penstock.cli import print_status
from penstock.cli._find import storage_of
from penstock.errors import CallError
from penstock.storage import restore
from penstock.storage.layout import Storage
from penstock.storage.lease import LeaseAcquirer, LeaseHeldError
from penstock.storage.restore import timestamp
from penstock.storage.verify import SinkStorage, find_problems, find_source_problems


@click.group("checkpoint", short_help="Verify, show, back up or restore a pipeline's checkpoints.")
def command() -> None:
    """Inspect, back up and restore the checkpoints and batch records of a pipeline.

    Example: penstock checkpoint verify trades
    """


@command.command()
@click.argument("named", metavar="NAME|FILE", default=".", type=click.Path())
@click.option("--state", is_flag=True, help="Read every state file too.")
def verify(named: str, state: bool) -> None:
    """Compare the checkpoints with the batch records; exit 1 if they differ.

    Example: penstock checkpoint verify trades --state
    """
    storage = storage_of(named)
    wrong = [str(problem) for problem in find_source_problems(storage)]
    for sink in _sinks(storage):
        problems = find_problems(sink, state=state)
        wrong += [f"{sink.name}: {problem}" for problem in problems]
        if not problems:
            click.echo(f"{sink.name}: {_summary(sink)}: intact")
    for text in wrong:
        click.echo(text)
    sys.exit(1 if wrong else 0)


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
    """Copy the checkpoints, the state and the batch records, with checksums.

    Of a running pipeline, everything up to its last finished batch.

    Example: penstock checkpoint backup trades --to /backup/trades
    """
    storage = storage_of(named)
    target = place or Path(storage.backup(timestamp()))
    try:
        with alone(storage):
            count = restore.backup(storage, target)
    except LeaseHeldError:
        count = restore.backup(storage, target, running=True)
    print_status(f"{count} files")
    click.echo(str(target))


@command.command("restore")
@click.argument("named", metavar="NAME|FILE", default=".", type=click.Path())
@click.option("--from", "place", type=click.Path(path_type=Path), help="A backup (default: the batch records).")
@click.option(
    "--behind", is_flag=True, help="Restore even if batches were written since: they are read and written again."
)
def restore_(named: str, place: Path | None, behind: bool) -> None:
    """Restore damaged checkpoint files from the batch records or a backup.

    Example: penstock checkpoint restore trades
    """
    storage = storage_of(named)
    with alone(storage):
        sinks = _sinks(storage)
        if place is not None:
            click.echo(f"{restore.from_backup(sinks, storage, place, behind=behind)} files restored")
        else:
            for line in restore.remove_damaged_sources(storage):
                click.echo(line)
            for sink in sinks:
                for name in restore.from_journal(sink):
                    click.echo(f"{sink.name}: {name}")
    wrong = [f"{sink.name}: {problem}" for sink in sinks for problem in find_problems(sink, state=True)]
    for text in wrong:
        print_status(text)
    sys.exit(1 if wrong else 0)


@contextmanager
def alone(storage: Storage) -> Iterator[None]:
    """Hold the storage's lease: no instance runs meanwhile."""
    lease = LeaseAcquirer(storage.lease, print_status).acquire()
    try:
        yield
    finally:
        lease.release()


def _sinks(storage: Storage) -> list[SinkStorage]:
    """Every sink with a checkpoint or records; the last record has the location of its target's log."""
    found = []
    for name in storage.sink_names():
        records = SinkStorage(name, storage).journal.readable()
        found.append(SinkStorage(name, storage, records[-1].log_url if records else ""))
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
