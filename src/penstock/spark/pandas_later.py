"""PySpark 4.2 without pandas until somebody wants it: a third of a second and 70 MB less for most pipelines.

For every value that goes to Java PySpark asks `pyspark.testing.utils.have_numpy`, and that module imports pandas to
tell. While nobody has imported numpy, no value can be numpy's.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

_NAMES = ("pyspark.testing", "pyspark.testing.utils")


class _Later(ModuleType):
    """Stands for a module that is imported when something else of it is asked for."""

    def __getattr__(self, name: str) -> Any:
        if name == "have_numpy":
            return "numpy" in sys.modules
        if name.startswith("__"):
            raise AttributeError(name)
        for each in _NAMES:
            if isinstance(sys.modules.get(each), _Later):
                del sys.modules[each]
        return getattr(importlib.import_module(self.__name__), name)


def without_pandas() -> None:
    """From now on; without effect where the module is already there."""
    import pyspark

    if any(name in sys.modules for name in _NAMES):
        return
    package, utils = (_Later(name) for name in _NAMES)
    package.__path__ = [str(Path(pyspark.__file__).parent / "testing")]
    sys.modules.update(dict(zip(_NAMES, (package, utils), strict=True)))
    pyspark.testing = package  # type: ignore[attr-defined]
