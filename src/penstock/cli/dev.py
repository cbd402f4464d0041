"""penstock dev: local services for development."""

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
from penstock.services.kafka_listeners import LISTENERS, SASL, TLS, Listener, SecuredListeners
from penstock.text import did_you_mean


@click.group("dev")
def command() -> None:
    """Start, stop and inspect a local Kafka and Cassandra.

    Example: penstock dev up kafka cassandra
    """


@command.command()
@click.argument("names", nargs=-1, metavar="[SERVICE]...")
@click.option(
    "--port", type=click.IntRange(1, 65535), help="Port to listen on (default: the usual one, or a free one)."
)
@click.option("--tls", is_flag=True, help="Add secured listeners; print those for TLS and mutual TLS.")
@click.option("--sasl", is_flag=True, help="Add secured listeners; print those for users with passwords.")
@click.option("--topic", "topics", multiple=True, help="Create this Kafka topic if it is missing; may be repeated.")
def up(names: tuple[str, ...], port: int | None, tls: bool, sasl: bool, topics: tuple[str, ...]) -> None:
    """Start services (default: kafka) and print their addresses.

    With --tls or --sasl the broker also listens for TLS, mutual TLS, and SASL (PLAIN, SCRAM) over TLS, with generated
    certificates and passwords. A shell file exports them; the user $ConnectionString stands in for Event Hubs.

    Example: penstock dev up kafka --topic trades
    """
    for name in _check_names(names or ("kafka",)):
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
    """Stop services (default: all); their data is kept.

    Example: penstock dev down
    """
    for name in _check_names(names or tuple(SERVICES)):
        click.echo(_done(_service(name).stop()))


@command.command()
@click.argument("names", nargs=-1, metavar="[SERVICE]...")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def status(names: tuple[str, ...], as_json: bool) -> None:
    """Show which services are running, where and since when.

    Example: penstock dev status
    """
    found = [_service(name).status() for name in _check_names(names or tuple(SERVICES))]
    if as_json:
        click.echo(json.dumps([asdict(each) for each in found], indent=2))
    else:
        click.echo("\n".join(_line(each) for each in found))


def start(name: str, port: int | None = None, listeners: tuple[Listener, ...] = ()) -> str:
    """Start a service, fetching missing jars first, and return its address."""
    class_path = fetch_with_progress([SERVICES[name].jars])
    if listeners and name != KafkaBroker.name:
        raise CallError(f"--tls and --sasl are only for kafka; start {name} without them")
    more: dict[str, Any] = {"listeners": listeners} if listeners else {}
    service = SERVICES[name](services.dev_folder() / name, class_path, port, **more)
    return service.start(lambda text: click.echo(text, err=True))


def _print_listeners(address: str, secured: SecuredListeners, listeners: Sequence[Listener]) -> None:
    click.echo(f"plaintext   {address}")
    for listener in listeners:
        click.echo(f"{listener.name:<11} {secured.addresses[listener.name]}")
    click.echo(f"certificates and passwords: . {shlex.quote(str(secured.shell_file))}", err=True)


def _service(name: str) -> Service:
    return SERVICES[name](services.dev_folder() / name)


def _check_names(names: Sequence[str]) -> Sequence[str]:
    for name in names:
        if name not in SERVICES:
            raise CallError(f"unknown service {name!r}; {did_you_mean(name, SERVICES)}")
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
        return f"{found.name} had already exited (pid {found.pid}); its record is removed"
    return f"{found.name} was not running"
