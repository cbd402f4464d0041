from __future__ import annotations

import os

from penstock.cli._stderr import Lines, Talk
from penstock.text import Waiting


def test_lines_that_nobody_reads_are_left_out_and_counted():
    reads, writes = os.pipe()
    os.set_blocking(writes, False)
    try:
        while True:
            os.write(writes, b"x" * 1024)
    except BlockingIOError:
        os.set_blocking(writes, True)
    talk = Talk(writes)

    for number in range(1200):
        talk.say(f"line {number}")
    with os.fdopen(reads, "rb") as file:
        said = b""
        while b"line 999" not in said:
            said += file.read1(65536)
        talk.say("and then")
        while b"and then" not in said:
            said += file.read1(65536)

    assert b"lines left out: nobody read them)" in said
    assert b"line 1199" not in said


def test_a_terminal_has_one_waiting_line_that_is_written_over():
    lines = Lines()

    written = [lines.render(text, terminal=True) for text in (Waiting("2 s left"), Waiting("1 s left"), "it is there")]

    assert written == ["\r2 s left\x1b[K", "\r1 s left\x1b[K", "\nit is there\n"]


def test_a_log_has_a_waiting_line_every_five_seconds():
    moments = iter([0.0, 0.0, 1.0, 4.9, 5.0, 5.0])
    lines = Lines(lambda: next(moments))

    written = [lines.render(Waiting(f"{number}"), terminal=False) for number in range(4)]

    assert written == ["0\n", "", "", "3\n"]
