"""What a run shows: a line per batch, or a live table on a terminal that nothing else writes to."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.cli._talk import Talk
from penstock.model import Pipeline
from penstock.watch.snapshot import snapshot
from penstock.watch.terminal import Total, line, summary, table
from penstock.words import Waiting

if TYPE_CHECKING:
    from rich.live import Live


@dataclass
class Screen:
    """Takes the driver's reports."""

    totals: dict[str, Total]
    talk: Talk
    live: Live | None = None
    began: bool = False
    """Whether its queries were ever started."""

    def report(self, report: dict[str, Any]) -> None:
        """Show what matters of a report."""
        if report["what"] == "said":
            self._wait("")
            self.talk.say(report["text"])
        elif report["what"] == "waiting":
            self._wait(report["text"])
        elif report["what"] == "started":
            self.began = True
        elif report["what"] == "batch":
            self._batch(report["progress"])

    def say_totals(self) -> None:
        """A line for each query at the end; nothing of a run that never began."""
        for total in self.totals.values() if self.began else ():
            self.talk.say(summary(total))

    def _wait(self, text: str) -> None:
        if self.live is not None:
            self.live.update(table(self.totals.values(), text))
        elif text:
            self.talk.say(Waiting(text))

    def _batch(self, progress: dict[str, Any]) -> None:
        seen = snapshot(progress)
        self.totals[seen.query] = self.totals.get(seen.query, Total(seen.query)).and_then(seen)
        if self.live is not None:
            self.live.update(table(self.totals.values()))
        elif seen.rows_in:
            self.talk.say(line(seen))


@contextmanager
def screen(pipeline: Pipeline, talk: Talk) -> Iterator[Screen]:
    """A screen for one run."""
    totals = {sink.name: Total(sink.name) for sink in pipeline.sinks}
    printing = any(connector.kind == "console" for connector in pipeline.connectors)
    if printing or not sys.stderr.isatty():
        yield Screen(totals, talk)
        return
    from rich.console import Console
    from rich.live import Live

    with Live(table(totals.values()), console=Console(stderr=True), refresh_per_second=4) as live:
        yield Screen(totals, talk, live)
