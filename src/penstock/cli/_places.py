"""Which pipelines are meant: by a file, a name, or the storage that is near."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from penstock.errors import CallError
from penstock.watch.board import NAME, Board
from penstock.words import did_you_mean

DEFAULT = ".penstock"


@dataclass(frozen=True)
class Place:
    """A storage, and one pipeline of it or none in particular."""

    storage: str
    name: str = ""
    file: str = ""

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
    if which is not None and _is_file(which):
        return _of_file(which, storage)
    root = storage or near()
    if which is None:
        return Place(root)
    if not NAME.fullmatch(which):
        raise CallError(f"{which!r} is no file here and cannot name a pipeline; give a name, or a .yaml or .py file")
    return Place(root, which)


def near() -> str:
    """The nearest `.penstock` from here up; an error if there is none."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / DEFAULT).is_dir():
            return str(folder / DEFAULT)
    raise CallError(f"there is no {DEFAULT} in {here} or above it; give a pipeline's FILE, or --storage")


def _is_file(which: str) -> bool:
    path = Path(which)
    return path.suffix in (".yaml", ".yml", ".py") or (path.is_dir() and any(mark in which for mark in "./\\"))


def _of_file(which: str, storage: str | None) -> Place:
    from penstock.engine.storage import Storage
    from penstock.load import load

    pipeline = load(which)
    found = Storage.of(pipeline)
    return Place(storage or found.root, found.name, pipeline.at.file)
