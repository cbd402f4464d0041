"""penstock dev: real services on this machine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

import click

from penstock import services
from penstock.cli.jars import fetch_with_progress
from penstock.errors import CallError
from penstock.services import SERVICES, Service, Status
from penstock.words import did_you_mean


@click.group("dev")
def command() -> None:
    """Start, stop and look at a real Kafka and a real Cassandra on this machine."""


@command.command()
@click.argument("names", nargs=-1, metavar="[SERVICE]...")
@click.option("--port", type=click.IntRange(1, 65535), help="Listen here; otherwise on the usual port or a free one.")
def up(names: tuple[str, ...], port: int | None) -> None:
    """Start services (kafka, unless named) and print their addresses."""
    for name in _known(names or ("kafka",)):
        click.echo(start(name, port))


@command.command()
@click.argument("names", nargs=-1, metavar="[SERVICE]...")
def down(names: tuple[str, ...]) -> None:
    """Stop services, all unless named; their data stays."""
    for name in _known(names or tuple(SERVICES)):
        click.echo(_done(_service(name).down()))


@command.command()
@click.argument("names", nargs=-1, metavar="[SERVICE]...")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def status(names: tuple[str, ...], as_json: bool) -> None:
    """Show which services run, where and since when."""
    found = [_service(name).status() for name in _known(names or tuple(SERVICES))]
    if as_json:
        click.echo(json.dumps([asdict(each) for each in found], indent=2))
    else:
        click.echo("\n".join(_line(each) for each in found))


def start(name: str, port: int | None = None) -> str:
    """Bring a service up, fetching its jars first when they are missing, and give its address."""
    class_path = fetch_with_progress([SERVICES[name].jars])
    service = SERVICES[name](services.dev_folder() / name, class_path, port)
    return service.up(lambda says: click.echo(says, err=True))


def _service(name: str) -> Service:
    return SERVICES[name](services.dev_folder() / name)


def _known(names: Sequence[str]) -> Sequence[str]:
    for name in names:
        if name not in SERVICES:
            raise CallError(f"no service is called {name!r}; {did_you_mean(name, SERVICES)}")
    return names


def _line(found: Status) -> str:
    if found.state == "running":
        return f"{found.name} running on {found.address}, pid {found.pid}, since {found.since}"
    if found.state == "stale":
        return f"{found.name} stale: pid {found.pid} is gone; run `penstock dev up {found.name}`"
    return f"{found.name} stopped"


def _done(found: Status) -> str:
    if found.state == "running":
        return f"{found.name} stopped (it ran on {found.address}, pid {found.pid})"
    if found.state == "stale":
        return f"{found.name} had gone away by itself (pid {found.pid}); its record is cleared"
    return f"{found.name} was not running"
