"""What a run prints of the driver's reports."""

from __future__ import annotations

import os

from penstock.cli._stderr import NonBlockingStderr
from penstock.cli.run import Screen
from penstock.watch.terminal import Total


def printed_after(*reports: str) -> str:
    """What is printed by the end of a run with these reports."""
    reads, writes = os.pipe()
    stderr = NonBlockingStderr(writes)
    screen = Screen({"out": Total("out")}, stderr)
    for what in reports:
        screen.report({"what": what, "sinks": ["out"], "text": f"({what})"})
    screen.print_totals()
    stderr.print_status("end")
    stderr.flush()
    os.close(writes)
    with os.fdopen(reads) as file:
        return file.read()


def test_a_run_that_never_began_has_no_totals():
    assert printed_after("status", "waiting") == "(status)\n(waiting)\nend\n"


def test_a_run_that_began_has_totals():
    assert printed_after("started") == "out: 0 rows in 0 batches\nend\n"
