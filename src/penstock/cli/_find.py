"""Which pipeline a command is about: its file, its folder, or its name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import CallError, PenstockError
from penstock.load import load
from penstock.load.files import list_pipelines
from penstock.storage.layout import DEFAULT, Storage
from penstock.text import did_you_mean, join_words
from penstock.watch.board import NAME, Board

_SUFFIXES = (".yaml", ".yml", ".py")


def storage_of(named: str) -> Storage:
    """The storage of the pipeline in this file, or with this name, here or in a parent folder."""
    if is_pipeline_path(named):
        return Storage.of(load(named))
    found = next(_with_name(named), None)
    if found is not None:
        return found
    names = sorted({each.name for folder in storage_roots() for each in folder.iterdir() if (each / "events").is_dir()})
    known = f"known: {join_words(names, 'and')}" if names else "none has run here"
    raise CallError(f"unknown pipeline {named!r}; {known}; give its file, or run this command in its folder")


def is_pipeline_path(named: str) -> bool:
    """Whether this is the path of a pipeline's file or folder, rather than a pipeline's name."""
    path = Path(named)
    written_as_path = any(mark in named for mark in "./\\")
    return path.suffix in _SUFFIXES or (path.is_dir() and (written_as_path or has_pipeline(path)))


def has_pipeline(folder: Path) -> bool:
    """Whether a folder contains a pipeline's file."""
    return bool(list_pipelines(folder))


def _with_name(name: str) -> Iterator[Storage]:
    for folder in storage_roots():
        if (folder / name).is_dir():
            yield Storage(str((folder / name).resolve()))
    for file in list_pipelines(Path.cwd()):
        try:
            pipeline = load(file)
        except PenstockError:
            # An unrelated file of the folder.
            continue
        if pipeline.name == name:
            yield Storage.of(pipeline)


def storage_roots() -> list[Path]:
    """The default storages here and in parent folders, the nearest first."""
    here = Path.cwd()
    return [folder / DEFAULT for folder in (here, *here.parents) if (folder / DEFAULT).is_dir()]


@dataclass(frozen=True)
class PipelineRef:
    """A storage, and optionally one of its pipelines."""

    storage: str
    name: str = ""

    def board(self) -> Board:
        """The board of its pipelines, refreshed once; an error if the named pipeline has never run."""
        board = Board(self.storage, self.name)
        board.refresh()
        if self.name and not self._has_run(board):
            known = Board(self.storage)
            known.refresh()
            fix = did_you_mean(self.name, known.names()) or "run it first: penstock run FILE"
            raise CallError(f"no pipeline {self.name!r} has run with the storage {self.storage}; {fix}")
        return board

    def _has_run(self, board: Board) -> bool:
        reducer = board.reducer(self.name)
        return reducer is not None and reducer.changes > 0


def find(which: str | None, storage: str | None) -> PipelineRef:
    """The pipeline that a NAME or FILE refers to, with `--storage`."""
    if which is None:
        return PipelineRef(storage or nearest_storage())
    if storage is None or is_pipeline_path(which):
        found = storage_of(which)
        return PipelineRef(storage or found.root, found.name)
    if not NAME.fullmatch(which):
        raise CallError(f"{which!r} is neither a file nor a valid pipeline name; give a name, or a .yaml or .py file")
    return PipelineRef(storage, which)


def nearest_storage() -> str:
    """The nearest default storage, here or in a parent folder; an error if none exists."""
    found = next(iter(storage_roots()), None)
    if found is None:
        raise CallError(f"no {DEFAULT} in {Path.cwd()} or its parent folders; give a pipeline's FILE, or --storage")
    return str(found)
