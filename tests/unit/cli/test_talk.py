from __future__ import annotations

import os

from penstock.cli._talk import Talk


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
