"""Which file is meant."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

from penstock.errors import LoadError
from penstock.load.reading import Document
from penstock.load.yaml_file import MOST_BYTES, read_yaml
from penstock.model import Finding, Location
from penstock.text import join_words, nearest

_YAML = (".yaml", ".yml")
_PIPELINE_KEY = re.compile(r"^(?:\{\s*)?[\"']?(?:sources|sinks)[\"']?\s*:", re.MULTILINE)
_MANIFEST_KEY = re.compile(r"^apiVersion\s*:", re.MULTILINE)


def pipeline_file(path: Path) -> Path:
    """The pipeline's file: the path itself, or the one in the folder."""
    try:
        if path.is_dir():
            return _in_folder(path)
        exists = path.exists()
    except (OSError, ValueError):
        exists = False
    if not exists:
        raise _refused(path, "there is no such file", _nearest_file(path))
    if path.suffix not in (*_YAML, ".py"):
        raise _refused(path, f"a {path.suffix or 'nameless'} file is not a pipeline", "give a .yaml, .yml or .py file")
    return path


def tests_beside(path: Path, document: Document) -> Document:
    """The document with the tests of `<name>_test.yaml` beside it added to its own."""
    names = (path.with_name(f"{path.stem}_test{suffix}") for suffix in _YAML)
    found = next((each for each in names if each.is_file()), None)
    own = document.values.get("tests") or []
    if found is None or not isinstance(own, list):
        return document
    other = read_yaml(found, str(found))
    cases = other.values.get("tests")
    if not isinstance(cases, list) or len(other.values) > 1:
        raise _refused(
            found,
            "a file of tests has one key, 'tests', with a list of them",
            "write 'tests:' and below it '- name: ...'",
        )
    moved = {
        ("tests", len(own) + keys[1], *keys[2:]): at
        for keys, at in other.places.items()
        if len(keys) > 1 and isinstance(keys[1], int)
    }
    return replace(document, values={**document.values, "tests": [*own, *cases]}, places={**document.places, **moved})


def is_pipeline(path: Path) -> bool:
    """Whether a file looks like a pipeline at a glance: YAML with sources or sinks, and no manifest."""
    if path.suffix not in _YAML or path.stem.endswith("_test") or not path.is_file():
        return False
    with path.open("rb") as file:
        text = file.read(MOST_BYTES).decode("utf-8-sig", errors="replace")
    return bool(_PIPELINE_KEY.search(text)) and not _MANIFEST_KEY.search(text)


def pipelines_in(folder: Path) -> list[Path]:
    """The pipelines of a folder, without its sub-folders."""
    return sorted(each for each in folder.iterdir() if is_pipeline(each))


def pipelines_below(folder: Path) -> list[Path]:
    """The pipelines of a folder and its sub-folders, hidden ones aside."""
    found: list[Path] = []
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not is_hidden(name)]
        found += (each for name in names if not is_hidden(name) and is_pipeline(each := Path(place, name)))
    return sorted(found)


def is_hidden(name: str) -> bool:
    """Whether a file or a folder is nothing to look into."""
    return name.startswith((".", "__pycache__")) or name in ("node_modules", "site-packages")


def _in_folder(folder: Path) -> Path:
    found = pipelines_in(folder)
    named = [each for each in found if each.stem == folder.resolve().name]
    if len(named) == 1 or len(found) == 1:
        return (named if len(named) == 1 else found)[0]
    if found:
        names = join_words((each.name for each in found), "and")
        raise _refused(folder, f"the folder has {len(found)} pipelines, {names}", "say which one")
    others = join_words(sorted(each.name for each in folder.iterdir())[:10], "and")
    says = f"the folder has no YAML file with 'sources' or 'sinks'; it has {others}"
    raise _refused(folder, says, "give a .yaml or .py file")


def _nearest_file(path: Path) -> str:
    try:
        names = [each.name for each in path.parent.iterdir() if each.suffix in (*_YAML, ".py") or each.is_dir()]
    except (OSError, ValueError):
        return f"there is no folder '{path.parent}' either"
    near = nearest(path.name, names)
    if near:
        return f"did you mean '{path.with_name(near)}'?"
    return f"the folder '{path.parent}' has {join_words(sorted(names)[:10], 'and')}"


def _refused(path: Path, says: str, fix: str) -> LoadError:
    return LoadError([Finding("file", Location(str(path)), says, fix)])
