"""Public test API: a bench for pipelines, and the tests of a file."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.testing.bench import Bench
    from penstock.testing.difference import Difference, compare
    from penstock.testing.result import Result, run
    from penstock.testing.sink_run import ReplayError
    from penstock.testing.suites import Suite, discover

__all__ = ["Bench", "Difference", "ReplayError", "Result", "Suite", "compare", "discover", "run"]

_HOMES = {
    "Bench": "bench",
    "Difference": "difference",
    "Result": "result",
    "ReplayError": "sink_run",
    "Suite": "suites",
    "compare": "difference",
    "discover": "suites",
    "run": "result",
}


def __getattr__(name: str) -> Any:
    # Lazy, because pytest imports this package with its plugin in every run.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
