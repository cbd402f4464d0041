"""Status lines on standard error that never block a pipeline: lines that are not read are dropped and counted."""

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


class LineRenderer:
    """Renders lines: a waiting line is overwritten on a terminal, and printed every five seconds in a log."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._waited_at = float("-inf")
        self._open = False
        """Whether the cursor is at the end of a line to overwrite."""

    def render(self, text: str, *, terminal: bool) -> str:
        """The text to write for a line; empty if it is not due."""
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


class NonBlockingStderr:
    """Writes lines from a background thread, so that the caller never blocks on a slow or stopped reader."""

    def __init__(self, fd: int | None = None) -> None:
        self._fd = sys.stderr.fileno() if fd is None else fd
        self._lines: queue.Queue[str] = queue.Queue(_MOST_LINES)
        self._dropped = 0
        self._renderer, self._terminal = LineRenderer(), os.isatty(self._fd)
        threading.Thread(target=self._write, name="stderr", daemon=True).start()

    def print_status(self, text: str) -> None:
        """Queue one line; drop it if a thousand are waiting."""
        try:
            self._lines.put_nowait(text)
        except queue.Full:
            self._dropped += 1

    def flush(self) -> None:
        """Wait up to two seconds for queued lines to be written."""
        done = threading.Event()

        def wait() -> None:
            self._lines.join()
            done.set()

        threading.Thread(target=wait, daemon=True).start()
        done.wait(_FLUSH_SECONDS)

    def _write(self) -> None:
        while True:
            text = self._lines.get()
            dropped, self._dropped = self._dropped, 0
            if dropped:
                text = f"({dropped:,} lines dropped: standard error was not read)\n{text}"
            try:
                self._write_all(self._renderer.render(text, terminal=self._terminal).encode(errors="replace"))
            except OSError:
                # The reader is gone; the event log has everything.
                self._fd = os.open(os.devnull, os.O_WRONLY)
            finally:
                self._lines.task_done()

    def _write_all(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._fd, data) :]
