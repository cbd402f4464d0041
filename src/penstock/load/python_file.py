"""Loads a Python file that builds a pipeline."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from penstock.errors import LoadError, PenstockError
from penstock.model import Finding, Location, Pipeline

_BUILD = "write 'pipeline = Pipeline(...)' at the top level"


def read_python(path: Path, file: str) -> Pipeline:
    """Load the pipeline that the file builds, with its folder first on sys.path."""
    folder = str(path.parent.resolve())
    if sys.path[:1] != [folder]:
        sys.path.insert(0, folder)
    built = _find_builders(_run(path, file))
    if not built:
        raise _load_error(file, 1, "the file builds no pipeline", _BUILD)
    if len(built) > 1:
        names = ", ".join(repr(name) for name in built)
        raise _load_error(file, 1, f"the file builds {len(built)} pipelines, {names}", "keep one per file")
    (builder,) = built.values()
    return _freeze(builder, file)


def _run(path: Path, file: str) -> ModuleType:
    name = f"penstock_file_{path.stem}"
    module = ModuleType(name)
    module.__file__ = str(path.absolute())
    sys.modules[name] = module
    try:
        # Compiled under the name that the user gave, for locations and messages.
        exec(compile(path.read_bytes(), file, "exec"), vars(module))  # noqa: S102
    except LoadError:
        raise
    except (Exception, SystemExit) as error:
        raise _describe_failure(error, file) from error
    finally:
        # Spark's workers cannot import the file; without its module, cloudpickle sends functions by value.
        sys.modules.pop(name, None)
    return module


def _find_builders(module: ModuleType) -> dict[str, Any]:
    found: dict[int, tuple[str, Any]] = {}
    for name, value in vars(module).items():
        if not isinstance(value, type) and callable(getattr(type(value), "freeze", None)):
            found.setdefault(id(value), (name, value))
    return dict(found.values())


def _freeze(builder: Any, file: str) -> Pipeline:
    try:
        pipeline = builder.freeze()
    except LoadError:
        raise
    except Exception as error:
        raise _describe_failure(error, file) from error
    if not isinstance(pipeline, Pipeline):
        raise _load_error(file, 1, f"freeze() returns {type(pipeline).__name__}, not a pipeline", _BUILD)
    return pipeline


def _describe_failure(error: BaseException, file: str) -> LoadError:
    if isinstance(error, SyntaxError) and error.filename == file:
        at = Location(file, error.lineno or 1, max(1, error.offset or 1))
        return LoadError([Finding("python-file", at, f"not Python: {error.msg}", "correct this line")])
    frames = traceback.extract_tb(error.__traceback__)
    line = next((frame.lineno for frame in reversed(frames) if frame.filename == file), 1) or 1
    if isinstance(error, PenstockError):
        return _load_error(file, line, str(error), "")
    return _load_error(file, line, f"the file raises {type(error).__name__}: {error}", "correct this line")


def _load_error(file: str, line: int, says: str, fix: str) -> LoadError:
    return LoadError([Finding("python-file", Location(file, line), says, fix)])
