"""penstock page"""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path

import click

from penstock.cli import print_status
from penstock.cli._find import PipelineRef, find, has_pipeline


@click.command(short_help="Serve the live page: overview, charts, events, Explore.")
@click.argument("which", metavar="[FILE|STORAGE]", required=False, type=click.Path())
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8650, show_default=True, help="The port; 0 for any free one."
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Another address needs --cert and --key.")
@click.option("--cert", default="", help="A certificate for TLS, as a PEM file.")
@click.option("--key", default="", help="Its key, as a PEM file.")
@click.option("--name", "names", multiple=True, help="A host name of the page, in addition to localhost.")
def command(which: str | None, port: int, host: str, cert: str, key: str, names: tuple[str, ...]) -> None:
    """Serve the page of every pipeline of a STORAGE, or of the one in FILE.

    Prints the address with its token on a terminal, and with the path of the token's file elsewhere.

    Example: penstock page trades.yaml
    """
    from penstock.page import serve
    from penstock.page.server import Endpoint

    found = _find(which)
    stopping = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.set())
    with serve(found.storage, Endpoint(host, port, cert, key, names), only=found.name) as page:
        click.echo(page.format_address(terminal=sys.stdout.isatty()))
        print_status("open this address in a browser; press Ctrl-C to stop")
        stopping.wait()


def _find(which: str | None) -> PipelineRef:
    if which is not None and "://" in which:
        return PipelineRef(which)
    if which is not None and Path(which).is_dir() and not has_pipeline(Path(which)):
        return PipelineRef(str(Path(which).resolve()))
    return find(which, None)
