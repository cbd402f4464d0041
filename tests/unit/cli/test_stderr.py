from __future__ import annotations

import os

from penstock.cli._stderr import LineRenderer, NonBlockingStderr
from penstock.text import Waiting


def test_lines_that_are_not_read_are_dropped_and_counted():
    reads, writes = os.pipe()
    os.set_blocking(writes, False)
    try:
        while True:
            os.write(writes, b"x" * 1024)
    except BlockingIOError:
        os.set_blocking(writes, True)
    stderr = NonBlockingStderr(writes)

    for number in range(1200):
        stderr.print_status(f"line {number}")
    with os.fdopen(reads, "rb") as file:
        written = b""
        while b"line 999" not in written:
            written += file.read1(65536)
        stderr.print_status("and then")
        while b"and then" not in written:
            written += file.read1(65536)

    assert b"lines dropped: standard error was not read)" in written
    assert b"line 1199" not in written


def test_a_terminal_has_one_waiting_line_that_is_written_over():
    lines = LineRenderer()

    written = [lines.render(text, terminal=True) for text in (Waiting("2 s left"), Waiting("1 s left"), "it is there")]

    assert written == ["\r2 s left\x1b[K", "\r1 s left\x1b[K", "\nit is there\n"]


def test_a_log_has_a_waiting_line_every_five_seconds():
    moments = iter([0.0, 0.0, 1.0, 4.9, 5.0, 5.0])
    lines = LineRenderer(lambda: next(moments))

    written = [lines.render(Waiting(f"{number}"), terminal=False) for number in range(4)]

    assert written == ["0\n", "", "", "3\n"]
