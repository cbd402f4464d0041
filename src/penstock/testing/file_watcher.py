"""Files are looked at again and again, and something is done about those that changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

Stamps = dict[Path, tuple[int, int]]


def stamps(files: Iterable[Path]) -> Stamps:
    """When each file that is there was saved, and its size."""
    found: Stamps = {}
    for file in files:
        try:
            said = file.stat()
        except OSError:
            continue
        found[file] = (said.st_mtime_ns, said.st_size)
    return found


def changed(before: Stamps, now: Stamps) -> frozenset[Path]:
    """Files that are new, gone or saved since."""
    return frozenset(file for file in before.keys() | now.keys() if before.get(file) != now.get(file))


def watch(
    files: Callable[[], Iterable[Path]], act: Callable[[frozenset[Path]], None], waited: Callable[[], bool]
) -> None:
    """Hand the changed files over after every wait, until `waited` says that it is enough.

    A file that is saved while `act` runs is handed over next.
    """
    seen = stamps(files())
    while waited():
        now = stamps(files())
        saved = changed(seen, now)
        seen = now
        if saved:
            act(saved)
