"""Finds pipeline files."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from penstock.errors import LoadError
from penstock.load.reader import Document
from penstock.load.yaml_file import MAX_BYTES, read_yaml
from penstock.model import Finding, Keys, Location
from penstock.text import join_words, nearest

_Value = TypeVar("_Value")
_YAML = (".yaml", ".yml")
_TESTS_END = "_test"
_PIPELINE_KEY = re.compile(r"^(?:\{\s*)?[\"']?(?:sources|sinks)[\"']?\s*:", re.MULTILINE)
_MANIFEST_KEY = re.compile(r"^apiVersion\s*:", re.MULTILINE)


def find_pipeline_file(path: Path) -> Path:
    """Find the pipeline's file: the path itself, or the one in the folder."""
    try:
        if path.is_dir():
            return _in_folder(path)
        exists = path.exists()
    except (OSError, ValueError):
        exists = False
    if not exists:
        raise _load_error(path, "no such file", _nearest_file(path))
    if path.suffix not in (*_YAML, ".py"):
        raise _load_error(
            path, f"a {path.suffix or 'nameless'} file is not a pipeline", "give a .yaml, .yml or .py file"
        )
    return path


def add_test_file(path: Path, document: Document) -> Document:
    """Add the tests of `<name>_test.yaml` next to the file to those of the document."""
    names = (path.with_name(f"{path.stem}{_TESTS_END}{suffix}") for suffix in _YAML)
    found = next((each for each in names if each.is_file()), None)
    own = document.values.get("tests") or []
    if found is None or not isinstance(own, list):
        return document
    other = read_yaml(found, str(found))
    cases = other.values.get("tests")
    if not isinstance(cases, list) or len(other.values) > 1:
        raise _load_error(
            found,
            "a test file has one key, 'tests', with a list",
            "write 'tests:' and below it '- name: ...'",
        )
    return replace(
        document,
        values={**document.values, "tests": [*own, *cases]},
        places={**document.places, **_move(other.places, len(own))},
        texts={**document.texts, **_move(other.texts, len(own))},
        silences=(*document.silences, *other.silences),
    )


def _move(by_keys: Mapping[Keys, _Value], count: int) -> dict[Keys, _Value]:
    """The same for the cases of another file, which come after so many."""
    return {
        ("tests", count + keys[1], *keys[2:]): value
        for keys, value in by_keys.items()
        if len(keys) > 1 and isinstance(keys[1], int)
    }


def pipeline_of(path: Path) -> Path:
    """The pipeline's file of a file of tests; any other file is returned as it is."""
    if path.suffix not in _YAML or not path.stem.endswith(_TESTS_END):
        return path
    stem = path.stem.removesuffix(_TESTS_END)
    candidates = [path.with_name(stem + suffix) for suffix in (*_YAML, ".py")]
    return next((each for each in candidates if each.is_file()), candidates[0])


def is_pipeline(path: Path) -> bool:
    """Whether a file looks like a pipeline: YAML with sources or sinks, and not a Kubernetes manifest."""
    if path.suffix not in _YAML or path.stem.endswith(_TESTS_END) or not path.is_file():
        return False
    with path.open("rb") as file:
        text = file.read(MAX_BYTES).decode("utf-8-sig", errors="replace")
    return bool(_PIPELINE_KEY.search(text)) and not _MANIFEST_KEY.search(text)


def list_pipelines(folder: Path) -> list[Path]:
    """List the pipelines of a folder, without subfolders."""
    return sorted(each for each in folder.iterdir() if is_pipeline(each))


def walk_pipelines(folder: Path) -> list[Path]:
    """List the pipelines of a folder and its subfolders, except hidden ones."""
    found: list[Path] = []
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not is_hidden(name)]
        found += (each for name in names if not is_hidden(name) and is_pipeline(each := Path(place, name)))
    return sorted(found)


def is_hidden(name: str) -> bool:
    """Whether to skip a file or folder in a search."""
    return name.startswith((".", "__pycache__")) or name in ("node_modules", "site-packages")


def _in_folder(folder: Path) -> Path:
    found = list_pipelines(folder)
    named = [each for each in found if each.stem == folder.resolve().name]
    if len(named) == 1 or len(found) == 1:
        return (named if len(named) == 1 else found)[0]
    if found:
        names = join_words((each.name for each in found), "and")
        raise _load_error(folder, f"the folder has {len(found)} pipelines, {names}", "give one of them")
    others = join_words(sorted(each.name for each in folder.iterdir())[:10], "and")
    says = f"the folder has no YAML file with 'sources' or 'sinks'; it has {others}"
    raise _load_error(folder, says, "give a .yaml or .py file")


def _nearest_file(path: Path) -> str:
    try:
        names = [each.name for each in path.parent.iterdir() if each.suffix in (*_YAML, ".py") or each.is_dir()]
    except (OSError, ValueError):
        return f"the folder '{path.parent}' does not exist either"
    near = nearest(path.name, names)
    if near:
        return f"did you mean '{path.with_name(near)}'?"
    return f"the folder '{path.parent}' has {join_words(sorted(names)[:10], 'and')}"


def _load_error(path: Path, says: str, fix: str) -> LoadError:
    return LoadError([Finding("file", Location(str(path)), says, fix)])
