"""penstock stop"""

from __future__ import annotations

import os
import signal

import click

from penstock.cli import print_status
from penstock.cli._find import storage_of
from penstock.errors import PenstockError
from penstock.processes import wait_until
from penstock.storage import lease

_MARGIN_SECONDS = 30.0


@click.command(short_help="Drain a running pipeline and wait until it has stopped.")
@click.argument("named", metavar="NAME|FILE", default=".", type=click.Path())
@click.option("--now", is_flag=True, help="Do not wait for running batches; they are repeated on restart.")
def command(named: str, now: bool) -> None:
    """Stop a running pipeline after it has finished and committed its batches.

    Example: penstock stop trades
    """
    storage = storage_of(named)
    holder = lease.read(storage.lease)
    if holder is None or holder.released or (holder.is_here and not holder.is_alive):
        click.echo(f"{storage.name} is not running")
        return
    if not holder.is_here:
        raise PenstockError(f"{storage.name} is running as {holder}; run this command there")
    print_status(f"{storage.name}: stopping {holder}")
    os.kill(holder.pid, signal.SIGTERM)
    if now:
        os.kill(holder.pid, signal.SIGTERM)
    # One that is stopped (SIGSTOP) takes no other signal.
    os.kill(holder.pid, signal.SIGCONT)
    _wait(storage.lease, holder)
    click.echo(f"{storage.name} has stopped")


def _wait(url: str, holder: lease.Holder) -> None:
    if not wait_until(lambda: not holder.is_alive, holder.leave_seconds + _MARGIN_SECONDS):
        raise PenstockError(f"{holder} has not stopped; run `penstock stop --now`")
    found = lease.read(url)
    if found is not None and found.name == holder.name and not found.released:
        raise PenstockError(f"{holder} was killed: it exited without releasing its lease; see penstock history")
