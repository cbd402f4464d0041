"""penstock reset: start sinks over with an empty checkpoint; the old one is kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from penstock.cli import print_status
from penstock.cli._find import is_pipeline_path, storage_of
from penstock.cli.checkpoint import alone
from penstock.errors import CallError
from penstock.text import did_you_mean

if TYPE_CHECKING:
    from penstock.model import Pipeline, Sink


@click.command(short_help="Start a pipeline, or one sink, over.")
@click.argument("named", metavar="NAME|FILE", default=".", type=click.Path())
@click.option("--sink", "only", metavar="SINK", help="Only this sink (default: all of them).")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
def command(named: str, only: str | None, yes: bool) -> None:
    """Move the checkpoints of a stopped pipeline aside, so that the next run starts over.

    Says what will be read again and what each target will do with it, and asks. Nothing is deleted: the old checkpoints
    and batch records are moved to `before/` in the storage.

    Example: penstock reset trades --sink totals
    """
    from penstock.engine.prepare import absolute
    from penstock.storage.layout import Storage
    from penstock.storage.restore import reset_sink, timestamp
    from penstock.storage.verify import SinkStorage

    pipeline = absolute(_load(named))
    storage = Storage.of(pipeline)
    sinks = _choose(pipeline, only)
    with alone(storage):
        for line in _consequences(pipeline, sinks):
            click.echo(line)
        if not yes:
            click.confirm("start over?", abort=True, err=True)
        mark = timestamp()
        for sink in sinks:
            log_url = sink.native.log_url if sink.native is not None else ""
            place = reset_sink(SinkStorage(sink.name, storage, log_url), mark)
    print_status(f"the old checkpoints are in {place}")


def _load(named: str) -> Pipeline:
    """The pipeline of a file, or of the file that the pipeline of this name was last run from."""
    from penstock.load import load

    if is_pipeline_path(named):
        return load(named)
    file = storage_of(named).read_manifest().get("file", "")
    if not file or not Path(file).exists():
        raise CallError(f"the file of pipeline {named!r} is not known; give the file instead of the name")
    return load(file)


def _choose(pipeline: Pipeline, only: str | None) -> list[Sink]:
    known = {sink.name: sink for sink in pipeline.sinks}
    if only is not None and only not in known:
        raise CallError(f"pipeline {pipeline.name!r} has no sink {only!r}; {did_you_mean(only, list(known))}")
    return [known[only]] if only else list(pipeline.sinks)


def _consequences(pipeline: Pipeline, sinks: list[Sink]) -> Iterator[str]:
    """What will be read again, and what each target does with it."""
    from penstock.model import Source

    for sink in sinks:
        yield f"sink {sink.name!r}:"
        read = [pipeline.streams[name] for name in pipeline.upstream(sink.reads)]
        for source in (node for node in read if isinstance(node, Source) and not node.static):
            yield f"  source {source.name!r} ({source.connector.kind}) {source.connector.on_reset}"
        for target in sink.targets:
            has_log = sink.native is not None and bool(sink.native.log_url)
            does = "starts empty: its old output is moved aside" if has_log else target.connector.on_replay(sink.mode)
            yield f"  target {target.name!r} ({target.connector.kind}) {does}"
