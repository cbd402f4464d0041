"""What a run shows of the driver's reports."""

from __future__ import annotations

import os

from penstock.cli._stderr import Talk
from penstock.cli.run import Screen
from penstock.watch.terminal import Total


def said(*reports: str) -> str:
    """What is printed by the end of a run with these reports."""
    reads, writes = os.pipe()
    talk = Talk(writes)
    screen = Screen({"out": Total("out")}, talk)
    for what in reports:
        screen.report({"what": what, "sinks": ["out"], "text": f"({what})"})
    screen.say_totals()
    talk.say("end")
    talk.flush()
    os.close(writes)
    with os.fdopen(reads) as file:
        return file.read()


def test_a_run_that_never_began_has_no_totals():
    assert said("said", "waiting") == "(said)\n(waiting)\nend\n"


def test_a_run_that_began_has_totals():
    assert said("started") == "out: 0 rows in 0 batches\nend\n"
