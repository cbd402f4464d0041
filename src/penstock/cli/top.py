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

from penstock.cli._find import place
from penstock.watch.board import Board
from penstock.watch.status import lines, plain, rows, table, told

if TYPE_CHECKING:
    from rich.console import Group


_LOOK_SECONDS = 0.5
_EVENTS = 8
_HELP = "up/down choose   enter details   q quit"


@click.command(short_help="Watch pipelines live in the terminal.")
@click.argument("which", metavar="[NAME|FILE]", required=False, type=click.Path())
@click.option("--storage", help="Where the pipelines keep their events (default: the nearest .penstock).")
def command(which: str | None, storage: str | None) -> None:
    """Watch every pipeline of a storage, or one of them: arrows choose, enter shows more, q ends.

    Example: penstock top
    """
    from rich.console import Console
    from rich.live import Live

    board = place(which, storage).board()
    screen = Screen(board)
    if not sys.stdout.isatty():
        click.echo("\n".join(line for view in board.views() for line in lines(view, time.time())))
        return
    with Keys() as keys, Live(screen.draw(), console=Console(), screen=True, auto_refresh=False) as live:
        while not screen.quit:
            screen.press(keys.wait(_LOOK_SECONDS))
            board.refresh()
            live.update(screen.draw(), refresh=True)


@dataclass
class Screen:
    """What is chosen, and how it looks."""

    board: Board
    chosen: int = 0
    details: bool = False
    quit: bool = False

    def press(self, key: str) -> None:
        """Do what a key means."""
        last = max(0, len(rows(self.board.views())) - 1)
        if key in ("q", "ctrl-c"):
            self.quit = True
        elif key in ("up", "k"):
            self.chosen = max(0, self.chosen - 1)
        elif key in ("down", "j"):
            self.chosen = min(last, self.chosen + 1)
        elif key in ("enter", "escape"):
            self.details = key == "enter" and not self.details

    def draw(self) -> Group:
        """The table, what is chosen in full, and what happened last."""
        from rich.console import Group
        from rich.text import Text

        now = time.time()
        views = self.board.views(now)
        parts: list[Any] = [table(views, self.chosen), Text("")]
        listed = rows(views)
        if listed:
            view, _ = listed[min(self.chosen, len(listed) - 1)]
            watch = self.board.watch(view.name)
            parts += [Text(line) for line in lines(view, now)] if self.details else []
            events = list(watch.events)[-_EVENTS:] if watch else []
            parts += [Text(f"{plain(event['at'])[:19]}  {told(event)}", style="dim") for event in events]
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
    """The terminal hands over each key at once while this is open, and is as before afterwards."""

    def __enter__(self) -> Keys:
        self._file = sys.stdin.fileno()
        self._before = termios.tcgetattr(self._file)
        tty.setcbreak(self._file)
        return self

    def __exit__(self, *_: Any) -> None:
        termios.tcsetattr(self._file, termios.TCSADRAIN, self._before)

    def wait(self, seconds: float) -> str:
        """The next key by its name or letter; empty if none was pressed in time."""
        ready, _, _ = select.select([self._file], [], [], seconds)
        if not ready:
            return ""
        pressed = os.read(self._file, 8)
        return _NAMES.get(pressed) or pressed[:1].decode("utf-8", errors="replace")
