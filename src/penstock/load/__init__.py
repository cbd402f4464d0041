"""Text becomes a pipeline: hop one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from penstock.load.document import to_pipeline
from penstock.load.files import pipeline_file, tests_beside
from penstock.load.variables import substitute
from penstock.load.yaml_file import read_yaml
from penstock.model import Pipeline

__all__ = ["load"]


def load(path: str | Path, variables: Mapping[str, str] | None = None) -> Pipeline:
    """The pipeline of a YAML file, a Python file or a folder; a LoadError with every finding otherwise.

    `variables` are what `${NAME}` means, by default the environment.
    """
    found = pipeline_file(Path(path))
    if found.suffix == ".py":
        from penstock.load.python_file import read_python

        return read_python(found, str(found))
    return _load_yaml(found, variables)


def _load_yaml(path: Path, variables: Mapping[str, str] | None) -> Pipeline:
    read = substitute(tests_beside(path, read_yaml(path, str(path))), variables)
    return to_pipeline(read.document, read.findings)
