"""Text becomes a pipeline: hop one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from penstock.load.document import to_pipeline
from penstock.load.files import pipeline_file, tests_beside
from penstock.load.variables import substitute
from penstock.load.yaml_file import decode_text, parse_yaml, read_yaml
from penstock.model import Pipeline

__all__ = ["load", "load_text"]


def load(path: str | Path, variables: Mapping[str, str] | None = None) -> Pipeline:
    """The pipeline of a YAML file, a Python file or a folder; a LoadError with every finding otherwise.

    `variables` are what `${NAME}` means, by default the environment.
    """
    found = pipeline_file(Path(path))
    if found.suffix == ".py":
        from penstock.load.python_file import read_python

        return read_python(found, str(found))
    return _load_yaml(found, variables)


def load_text(data: bytes, file: str, variables: Mapping[str, str] | None = None) -> Pipeline:
    """The pipeline of YAML that is in no file; `file` is what messages call it, and paths are relative to here."""
    read = substitute(parse_yaml(decode_text(data, file), file), variables)
    return to_pipeline(read.document, read.findings)


def _load_yaml(path: Path, variables: Mapping[str, str] | None) -> Pipeline:
    read = substitute(tests_beside(path, read_yaml(path, str(path))), variables)
    return to_pipeline(read.document, read.findings)
