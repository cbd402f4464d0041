"""penstock page"""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path

import click

from penstock.cli import say
from penstock.cli._find import Place, has_pipeline, place


@click.command(short_help="Serve the live page: overview, charts, events, Explore.")
@click.argument("which", metavar="[FILE|STORAGE]", required=False, type=click.Path())
@click.option("--port", type=click.IntRange(0, 65535), default=8650, show_default=True, help="0 for any free one.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Another address needs --cert and --key.")
@click.option("--cert", default="", help="A certificate for TLS, as a PEM file.")
@click.option("--key", default="", help="Its key, as a PEM file.")
@click.option("--name", "names", multiple=True, help="A host name that the page is reached by, besides localhost.")
def command(which: str | None, port: int, host: str, cert: str, key: str, names: tuple[str, ...]) -> None:
    """Serve the page of every pipeline of a STORAGE, or of the one in FILE.

    The address is printed: with its token to a terminal, and otherwise with the file that holds the token.

    Example: penstock page trades.yaml
    """
    from penstock.page import served
    from penstock.page.server import Where

    found = _place(which)
    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())
    with served(found.storage, Where(host, port, cert, key, names), only=found.name) as page:
        click.echo(page.invitation(terminal=sys.stdout.isatty()))
        say("open this address in a browser; Ctrl-C ends")
        stopping.wait()


def _place(which: str | None) -> Place:
    if which is not None and "://" in which:
        return Place(which)
    if which is not None and Path(which).is_dir() and not has_pipeline(Path(which)):
        return Place(str(Path(which).resolve()))
    return place(which, None)
