"""Loads a file into a pipeline model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from penstock.load.document import to_pipeline
from penstock.load.files import add_test_file, find_pipeline_file
from penstock.load.variables import substitute
from penstock.load.yaml_file import decode_text, parse_yaml, read_yaml
from penstock.model import Pipeline

__all__ = ["load", "load_text"]


def load(path: str | Path, variables: Mapping[str, str] | None = None) -> Pipeline:
    """Load the pipeline of a YAML file, a Python file or a folder; a LoadError has every finding.

    `variables` are the values of `${NAME}`, by default the environment.
    """
    found = find_pipeline_file(Path(path))
    if found.suffix == ".py":
        from penstock.load.python_file import read_python

        return read_python(found, str(found))
    return _load_yaml(found, variables)


def load_text(data: bytes, file: str, variables: Mapping[str, str] | None = None) -> Pipeline:
    """Load a pipeline from YAML text; `file` is its name in messages, and paths are relative to here."""
    read = substitute(parse_yaml(decode_text(data, file), file), variables)
    return to_pipeline(read.document, read.findings)


def _load_yaml(path: Path, variables: Mapping[str, str] | None) -> Pipeline:
    read = substitute(add_test_file(path, read_yaml(path, str(path))), variables)
    return to_pipeline(read.document, read.findings)
