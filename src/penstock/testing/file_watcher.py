"""Polls files and reports those that changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

Stamps = dict[Path, tuple[int, int]]


def stamps(files: Iterable[Path]) -> Stamps:
    """Modification time and size of each file that exists."""
    found: Stamps = {}
    for file in files:
        try:
            status = file.stat()
        except OSError:
            continue
        found[file] = (status.st_mtime_ns, status.st_size)
    return found


def diff_stamps(before: Stamps, now: Stamps) -> frozenset[Path]:
    """Files that were created, removed or saved."""
    return frozenset(file for file in before.keys() | now.keys() if before.get(file) != now.get(file))


def watch(
    files: Callable[[], Iterable[Path]], act: Callable[[frozenset[Path]], None], wait: Callable[[], bool]
) -> None:
    """Call `act` with the changed files after every `wait`, until `wait` returns False.

    A file saved while `act` runs is reported in the next call.
    """
    seen = stamps(files())
    while wait():
        now = stamps(files())
        saved = diff_stamps(seen, now)
        seen = now
        if saved:
            act(saved)
