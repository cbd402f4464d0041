"""penstock top"""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from penstock.cli._find import find
from penstock.events import describe
from penstock.text import printable
from penstock.watch.board import Board
from penstock.watch.terminal import lines, rows, status_table

if TYPE_CHECKING:
    from rich.console import Group


_REFRESH_SECONDS = 0.5
_EVENTS = 8
_HELP = "up/down select   enter details   q quit"


@click.command(short_help="Watch pipelines live in the terminal.")
@click.argument("which", metavar="[NAME|FILE]", required=False, type=click.Path())
@click.option("--storage", help="The storage of the pipelines (default: the nearest .penstock).")
def command(which: str | None, storage: str | None) -> None:
    """Watch every pipeline of a storage, or one of them: arrows select, enter shows details, q quits.

    Example: penstock top
    """
    from rich.console import Console
    from rich.live import Live

    board = find(which, storage).board()
    screen = Screen(board)
    if not sys.stdout.isatty():
        click.echo("\n".join(line for view in board.views() for line in lines(view, time.time())))
        return
    with Keys() as keys, Live(screen.draw(), console=Console(), screen=True, auto_refresh=False) as live:
        while not screen.quit:
            screen.press(keys.wait(_REFRESH_SECONDS))
            board.refresh()
            live.update(screen.draw(), refresh=True)


@dataclass
class Screen:
    """The state of the screen, and how it is drawn."""

    board: Board
    selected: int = 0
    details: bool = False
    quit: bool = False

    def press(self, key: str) -> None:
        """Handle a key."""
        last = max(0, len(rows(self.board.views())) - 1)
        if key in ("q", "ctrl-c"):
            self.quit = True
        elif key in ("up", "k"):
            self.selected = max(0, self.selected - 1)
        elif key in ("down", "j"):
            self.selected = min(last, self.selected + 1)
        elif key in ("enter", "escape"):
            self.details = key == "enter" and not self.details

    def draw(self) -> Group:
        """The table, details of the selected row, and the last events."""
        from rich.console import Group
        from rich.text import Text

        now = time.time()
        views = self.board.views(now)
        parts: list[Any] = [status_table(views, self.selected), Text("")]
        listed = rows(views)
        if listed:
            view, _ = listed[min(self.selected, len(listed) - 1)]
            reducer = self.board.reducer(view.name)
            parts += [Text(line) for line in lines(view, now)] if self.details else []
            events = list(reducer.events)[-_EVENTS:] if reducer else []
            parts += [Text(f"{printable(event['at'])[:19]}  {describe(event)}", style="dim") for event in events]
        return Group(*parts, Text(""), Text(_HELP, style="dim"))


_NAMES = {
    b"\x1b[A": "up",
    b"\x1bOA": "up",
    b"\x1b[B": "down",
    b"\x1bOB": "down",
    b"\r": "enter",
    b"\n": "enter",
    b"\x1b": "escape",
    b"\x03": "ctrl-c",
}


class Keys:
    """Reads single keys: the terminal is in cbreak mode while this is open."""

    def __enter__(self) -> Keys:
        self._file = sys.stdin.fileno()
        self._before = termios.tcgetattr(self._file)
        tty.setcbreak(self._file)
        return self

    def __exit__(self, *_: Any) -> None:
        termios.tcsetattr(self._file, termios.TCSADRAIN, self._before)

    def wait(self, seconds: float) -> str:
        """The next key by name or letter; empty after the timeout."""
        ready, _, _ = select.select([self._file], [], [], seconds)
        if not ready:
            return ""
        pressed = os.read(self._file, 8)
        return _NAMES.get(pressed) or pressed[:1].decode("utf-8", errors="replace")
