"""Single keys from a terminal, without waiting for a line."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from typing import Any

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
