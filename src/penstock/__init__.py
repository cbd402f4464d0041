"""Penstock: production streaming pipelines on Apache Spark, from one file.

Every connector of the registry is a function here: `penstock.kafka(servers=..., topics=...)`.
"""

from __future__ import annotations

from typing import Any

from penstock.errors import PenstockError
from penstock.options import Secret
from penstock.pipeline import Pipeline, connector_function

__all__ = ["PenstockError", "Pipeline", "Secret"]


def __getattr__(name: str) -> Any:
    function = connector_function(name)
    if function is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return function
