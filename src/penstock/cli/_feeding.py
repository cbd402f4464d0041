"""What `feed` and `record` share on the command line: values with units, and a line of progress with the true rate."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import click

from penstock.feeds import values

_TTY_SECONDS = 0.2
_LOG_SECONDS = 10.0


class Value(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """An option that a function of `penstock.feeds.values` reads."""

    def __init__(self, name: str, read: Callable[[str], Any]) -> None:
        self.name, self._read = name, read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """What the text says; the sentence of its ValueError if it says nothing."""
        try:
            return self._read(value) if isinstance(value, str) else value
        except ValueError as error:
            self.fail(str(error), param, ctx)


RATE = Value("rate", values.rate)
DURATION = Value("duration", values.duration)
SHARE = Value("share", values.share)
BURST = Value("burst", values.burst)
SEPARATOR = Value("separator", lambda text: text.replace("\\t", "\t"))
# `max` is None in the feed, which for click would mean that nothing was given.
SPEED = Value("speed", lambda text: values.speed(text) or 0.0)


class Progress:
    """A line that is written over on a terminal, and now and then a line of its own in a log."""

    def __init__(self, name: str, of: int | None) -> None:
        self._name, self._of, self._tty = name, of, sys.stderr.isatty()
        self._every = _TTY_SECONDS if self._tty else _LOG_SECONDS
        self._at, self._count = time.monotonic(), 0
        self._shown = False

    def __call__(self, count: int) -> None:
        """Say how many there are and how many a second since the last line, if it is time to."""
        now = time.monotonic()
        if now - self._at < self._every:
            return
        rate = (count - self._count) / (now - self._at)
        self._at, self._count = now, count
        of = f" of {self._of:,}" if self._of else ""
        text = f"{self._name}: {count:,}{of}, {rate:,.0f} records/s"
        click.echo(f"\r{text:<70}" if self._tty else text, nl=not self._tty, err=True)
        self._shown = True

    def end(self) -> None:
        """Leave the line as it is."""
        if self._tty and self._shown:
            click.echo(err=True)


def end_on_sigterm() -> None:
    """SIGTERM ends a feed as Ctrl-C does: what was taken still arrives."""

    def interrupt(_signal: int, _frame: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
