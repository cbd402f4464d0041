"""Python modules beside a pipeline file: the ones of this pipeline, as they are on disk now."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import shutil
import sys
import threading
from pathlib import Path

from penstock.model import Pipeline

#: Modules that were imported for a test, by name, with their file's stamp.
_known: dict[str, tuple[Path, int]] = {}
_one_at_a_time = threading.Lock()


def use(pipeline: Pipeline) -> None:
    """Make `import` in steps mean the modules beside the file, for this process and for Spark's workers.

    One session serves pipelines of several folders, and two of them may both have a `model.py`.
    """
    folder = Path(pipeline.folder).resolve()
    beside = {path.stem: path for path in folder.glob("*.py")}
    with _one_at_a_time:
        _forget(beside)
        if str(folder) in sys.path:
            sys.path.remove(str(folder))
        sys.path.insert(0, str(folder))
        _import_steps(pipeline, beside)
        _send(beside)


def _forget(beside: dict[str, Path]) -> None:
    """Drop modules of another folder that have the name of one here, and all of this folder's when one changed."""
    importlib.invalidate_caches()
    stale = {name for name, (path, stamp) in _known.items() if beside.get(name) == path and _stamp(path) != stamp}
    foreign = {name for name in beside if name in _known and _known[name][0] != beside[name]}
    here = {name for name in beside if _known.get(name, (None,))[0] == beside[name]} if stale else set()
    for name in foreign | stale | here:
        module = sys.modules.pop(name, None)
        path, _ = _known.pop(name)
        if module is not None:
            # Compiled files know a source by its second and size: two quick saves can look alike.
            Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)


def _import_steps(pipeline: Pipeline, beside: dict[str, Path]) -> None:
    from pyspark import cloudpickle

    for step in pipeline.steps:
        for value in step.what.model_dump().values():
            name = value.partition(":")[0] if isinstance(value, str) else ""
            if name in beside:
                # What is wrong with the module is said when the step is built.
                with contextlib.suppress(Exception):
                    importlib.import_module(name)
    for name, path in beside.items():
        module = sys.modules.get(name)
        if module is not None and Path(getattr(module, "__file__", None) or "").resolve() == path:
            _known[name] = (path, _stamp(path))
            # By value: a worker that lives on has the module of an earlier test.
            cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


def _send(beside: dict[str, Path]) -> None:
    from pyspark import SparkFiles

    # Not `addPyFile`, which refuses a second file of the same name.
    root = Path(SparkFiles.getRootDirectory())
    for path in beside.values():
        if not path.name.startswith("test_") and path.name != "conftest.py":
            shutil.copy(path, root / path.name)


def _stamp(path: Path) -> int:
    return path.stat().st_mtime_ns if path.exists() else 0
