"""Objects of the user's Python modules, by `module:name`."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from penstock.errors import BuildError


def import_object(path: str) -> Any:
    """Import `module:name`; a BuildError says why it fails."""
    from pyspark import cloudpickle

    module_name, _, name = path.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name == module_name:
            raise BuildError(f"no module {module_name!r}; put {module_name}.py next to the pipeline file") from error
        raise BuildError(f"{module_name!r} imports {error.name!r}, which is not installed") from error
    except Exception as error:
        raise BuildError(f"importing {module_name!r} raised {type(error).__name__}: {error}") from error
    if module_name.partition(".")[0] not in sys.stdlib_module_names:
        # By value: a worker that imported the module would run its decorators, and `udf("string")` needs a session.
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    if not hasattr(module, name):
        raise BuildError(f"{module_name!r} has no {name!r}")
    return getattr(module, name)
