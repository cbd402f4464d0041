"""penstock dev: real services on this machine."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import click

from penstock import services
from penstock.cli.jars import fetch_with_progress
from penstock.connectors.kafka import create_topics
from penstock.errors import CallError
from penstock.services import SERVICES, KafkaBroker, Service, Status
from penstock.services.kafka_listeners import LISTENERS, SASL, TLS, Listener, Secured
from penstock.text import did_you_mean


@click.group("dev")
def command() -> None:
    """Start, stop and look at a real Kafka and a real Cassandra on this machine.

    Example: penstock dev up kafka cassandra
    """


@command.command()
@click.argument("names", nargs=-1, metavar="[SERVICE]...")
@click.option("--port", type=click.IntRange(1, 65535), help="Listen here; otherwise on the usual port or a free one.")
@click.option("--tls", is_flag=True, help="With secured listeners; print those for TLS and mutual TLS.")
@click.option("--sasl", is_flag=True, help="With secured listeners; print those for users with passwords.")
@click.option("--topic", "topics", multiple=True, help="Make this topic of kafka, unless it is there; may be repeated.")
def up(names: tuple[str, ...], port: int | None, tls: bool, sasl: bool, topics: tuple[str, ...]) -> None:
    """Start services (kafka, unless named) and print their addresses.

    --tls or --sasl: the broker also listens for TLS, mutual TLS, and users (PLAIN, SCRAM) over TLS, with certificates
    and passwords that it makes. A file says them to a shell; the user $ConnectionString stands in for Event Hubs.

    Example: penstock dev up kafka --topic trades
    """
    for name in _known(names or ("kafka",)):
        address = start(name, port, LISTENERS if tls or sasl else ())
        if topics and name == KafkaBroker.name:
            create_topics(address, topics)
        if tls or sasl:
            shown = [*(TLS if tls else ()), *(SASL if sasl else ())]
            secured = KafkaBroker(services.dev_folder() / name).secured
            _print_listeners(address, secured, shown)
        else:
            click.echo(address)


@command.command()
@click.argument("names", nargs=-1, metavar="[SERVICE]...")
def down(names: tuple[str, ...]) -> None:
    """Stop services, all unless named; their data stays.

    Example: penstock dev down
    """
    for name in _known(names or tuple(SERVICES)):
        click.echo(_done(_service(name).down()))


@command.command()
@click.argument("names", nargs=-1, metavar="[SERVICE]...")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def status(names: tuple[str, ...], as_json: bool) -> None:
    """Show which services run, where and since when.

    Example: penstock dev status
    """
    found = [_service(name).status() for name in _known(names or tuple(SERVICES))]
    if as_json:
        click.echo(json.dumps([asdict(each) for each in found], indent=2))
    else:
        click.echo("\n".join(_line(each) for each in found))


def start(name: str, port: int | None = None, listeners: tuple[Listener, ...] = ()) -> str:
    """Bring a service up, fetching its jars first when they are missing, and give its address."""
    class_path = fetch_with_progress([SERVICES[name].jars])
    if listeners and name != KafkaBroker.name:
        raise CallError(f"--tls and --sasl are for kafka; start {name} without them")
    more: dict[str, Any] = {"listeners": listeners} if listeners else {}
    service = SERVICES[name](services.dev_folder() / name, class_path, port, **more)
    return service.up(lambda says: click.echo(says, err=True))


def _print_listeners(address: str, secured: Secured, listeners: Sequence[Listener]) -> None:
    click.echo(f"plaintext   {address}")
    for listener in listeners:
        click.echo(f"{listener.name:<11} {secured.addresses[listener.name]}")
    click.echo(f"certificates and passwords: . {shlex.quote(str(secured.shell_file))}", err=True)


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
