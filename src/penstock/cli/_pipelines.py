"""Which pipeline a command is about: its file, its folder, or its name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from penstock.engine.storage import DEFAULT, Storage
from penstock.errors import CallError, PenstockError
from penstock.load import load
from penstock.load.files import pipelines_in
from penstock.words import listed

_SUFFIXES = (".yaml", ".yml", ".py")


def storage_of(named: str) -> Storage:
    """The storage of the pipeline in a file, or of one with this name here or in a folder above."""
    if is_file(named):
        return Storage.of(load(named))
    found = next(_with_name(named), None)
    if found is not None:
        return found
    there = sorted({each.name for folder in roots() for each in folder.iterdir() if (each / "events").is_dir()})
    known = f"there is {listed(there, 'and')}" if there else "there is none here"
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
