"""Shared by `feed` and `record`: option types with units, and a progress line."""

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


class ParsedValue(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """An option parsed by a function of `penstock.feeds.values`."""

    def __init__(self, name: str, read: Callable[[str], Any]) -> None:
        self.name, self._read = name, read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The parsed value; a usage error with the message of its ValueError."""
        try:
            return self._read(value) if isinstance(value, str) else value
        except ValueError as error:
            self.fail(str(error), param, ctx)


RATE = ParsedValue("rate", values.parse_rate)
DURATION = ParsedValue("duration", values.parse_duration)
SHARE = ParsedValue("share", values.parse_share)
BURST = ParsedValue("burst", values.parse_burst)
SEPARATOR = ParsedValue("separator", lambda text: text.replace("\\t", "\t"))
# `max` is None in the feed, but None means "not given" to click.
SPEED = ParsedValue("speed", lambda text: values.parse_speed_factor(text) or 0.0)


class Progress:
    """One line, overwritten on a terminal; a new line every ten seconds in a log."""

    def __init__(self, name: str, of: int | None) -> None:
        self._name, self._of, self._tty = name, of, sys.stderr.isatty()
        self._every = _TTY_SECONDS if self._tty else _LOG_SECONDS
        self._at, self._count = time.monotonic(), 0
        self._shown = False

    def __call__(self, count: int) -> None:
        """Print the count, and the rate since the last line, when a line is due."""
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
        """End the line on a terminal."""
        if self._tty and self._shown:
            click.echo(err=True)


def end_on_sigterm() -> None:
    """Handle SIGTERM like Ctrl-C: records that were read are still delivered."""

    def interrupt(_signal: int, _frame: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
