"""Talk on standard error that never holds a pipeline up: when nobody reads it, lines are left out and counted."""

from __future__ import annotations

import os
import queue
import sys
import threading

_MOST_LINES = 1000
_FLUSH_SECONDS = 2.0


class Talk:
    """Writes lines from a thread of its own."""

    def __init__(self, fd: int | None = None) -> None:
        self._fd = sys.stderr.fileno() if fd is None else fd
        self._lines: queue.Queue[str] = queue.Queue(_MOST_LINES)
        self._left_out = 0
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
                self._write_all(text.encode(errors="replace") + b"\n")
            except OSError:
                # Whoever read it is gone; the event log has it all.
                self._fd = os.open(os.devnull, os.O_WRONLY)
            finally:
                self._lines.task_done()

    def _write_all(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._fd, data) :]
