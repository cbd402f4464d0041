"""Which pipelines are meant: by a file, a name, or the storage that is near."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from penstock.cli._pipelines import is_file, roots, storage_of
from penstock.engine.storage import DEFAULT
from penstock.errors import CallError
from penstock.watch.board import NAME, Board
from penstock.words import did_you_mean


@dataclass(frozen=True)
class Place:
    """A storage, and one pipeline of it or none in particular."""

    storage: str
    name: str = ""

    def board(self) -> Board:
        """Its pipelines, read once; an error if the one that is meant has never run."""
        board = Board(self.storage, self.name)
        board.refresh()
        if self.name and not self._has_run(board):
            known = Board(self.storage)
            known.refresh()
            fix = did_you_mean(self.name, known.names()) or "run it first: penstock run FILE"
            raise CallError(f"no pipeline {self.name!r} has run with the storage {self.storage}; {fix}")
        return board

    def _has_run(self, board: Board) -> bool:
        watch = board.watch(self.name)
        return watch is not None and watch.changes > 0


def place(which: str | None, storage: str | None) -> Place:
    """What a NAME or a FILE, and `--storage`, mean together."""
    if which is None:
        return Place(storage or near())
    if storage is None or is_file(which):
        found = storage_of(which)
        return Place(storage or found.root, found.name)
    if not NAME.fullmatch(which):
        raise CallError(f"{which!r} is no file here and cannot name a pipeline; give a name, or a .yaml or .py file")
    return Place(storage, which)


def near() -> str:
    """The nearest storage from here up; an error if there is none."""
    found = next(iter(roots()), None)
    if found is None:
        raise CallError(f"there is no {DEFAULT} in {Path.cwd()} or above it; give a pipeline's FILE, or --storage")
    return str(found)
