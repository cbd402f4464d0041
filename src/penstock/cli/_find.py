"""Which pipeline a command is about: its file, its folder, or its name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import CallError, PenstockError
from penstock.load import load
from penstock.load.files import pipelines_in
from penstock.storage.layout import DEFAULT, Storage
from penstock.text import did_you_mean, join_words
from penstock.watch.board import NAME, Board

_SUFFIXES = (".yaml", ".yml", ".py")


def storage_of(named: str) -> Storage:
    """The storage of the pipeline in a file, or of one with this name here or in a folder above."""
    if is_file(named):
        return Storage.of(load(named))
    found = next(_with_name(named), None)
    if found is not None:
        return found
    there = sorted({each.name for folder in roots() for each in folder.iterdir() if (each / "events").is_dir()})
    known = f"there is {join_words(there, 'and')}" if there else "there is none here"
    raise CallError(f"no pipeline is called {named!r}; {known}; give its file, or call this where the file is")


def is_file(named: str) -> bool:
    """Whether a pipeline's file is meant, or the folder of one; a folder that only bears a pipeline's name is not."""
    path = Path(named)
    written_as_path = any(mark in named for mark in "./\\")
    return path.suffix in _SUFFIXES or (path.is_dir() and (written_as_path or has_pipeline(path)))


def has_pipeline(folder: Path) -> bool:
    """Whether there is a pipeline's file in a folder."""
    return bool(pipelines_in(folder))


def _with_name(name: str) -> Iterator[Storage]:
    for folder in roots():
        if (folder / name).is_dir():
            yield Storage(str((folder / name).resolve()))
    for file in pipelines_in(Path.cwd()):
        try:
            pipeline = load(file)
        except PenstockError:
            # Some other file of the folder: it is not what was asked for.
            continue
        if pipeline.name == name:
            yield Storage.of(pipeline)


def roots() -> list[Path]:
    """The storages here and in the folders above, the nearest first."""
    here = Path.cwd()
    return [folder / DEFAULT for folder in (here, *here.parents) if (folder / DEFAULT).is_dir()]


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
