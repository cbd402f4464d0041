"""Talk on standard error that never holds a pipeline up: when nobody reads it, lines are left out and counted."""

from __future__ import annotations

import os
import queue
import shutil
import sys
import threading
import time
from collections.abc import Callable

from penstock.text import Waiting

_MOST_LINES = 1000
_FLUSH_SECONDS = 2.0
_WAITING_SECONDS = 5.0


class Lines:
    """What lines become: on a terminal a waiting line is written over, in a log there is one every five seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._waited_at = float("-inf")
        self._open = False
        """Whether the cursor stands behind a line that can be written over."""

    def render(self, text: str, *, terminal: bool) -> str:
        """What to write for a line; nothing for one that is not due."""
        if not isinstance(text, Waiting):
            before, self._open = "\n" if self._open else "", False
            return f"{before}{text}\n"
        if terminal:
            self._open = True
            return f"\r{text[: shutil.get_terminal_size().columns - 1]}\x1b[K"
        if self._clock() - self._waited_at < _WAITING_SECONDS:
            return ""
        self._waited_at = self._clock()
        return f"{text}\n"


class Talk:
    """Writes lines from a thread of its own."""

    def __init__(self, fd: int | None = None) -> None:
        self._fd = sys.stderr.fileno() if fd is None else fd
        self._lines: queue.Queue[str] = queue.Queue(_MOST_LINES)
        self._left_out = 0
        self._rendered, self._terminal = Lines(), os.isatty(self._fd)
        threading.Thread(target=self._write, name="talk", daemon=True).start()

    def say(self, text: str) -> None:
        """One line, unless a thousand others wait already."""
        try:
            self._lines.put_nowait(text)
        except queue.Full:
            self._left_out += 1

    def flush(self) -> None:
        """Wait for the lines to be written, but not for ever."""
        done = threading.Event()

        def wait() -> None:
            self._lines.join()
            done.set()

        threading.Thread(target=wait, daemon=True).start()
        done.wait(_FLUSH_SECONDS)

    def _write(self) -> None:
        while True:
            text = self._lines.get()
            left_out, self._left_out = self._left_out, 0
            if left_out:
                text = f"({left_out:,} lines left out: nobody read them)\n{text}"
            try:
                self._write_all(self._rendered.render(text, terminal=self._terminal).encode(errors="replace"))
            except OSError:
                # Whoever read it is gone; the event log has it all.
                self._fd = os.open(os.devnull, os.O_WRONLY)
            finally:
                self._lines.task_done()

    def _write_all(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._fd, data) :]
