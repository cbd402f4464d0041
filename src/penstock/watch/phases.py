"""Where the time of a batch went."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: In the order in which a batch has them.
PHASES = ("planning", "reading", "state", "writing", "commit", "other")


def phases(progress: Mapping[str, Any]) -> dict[str, float]:
    """Seconds of a batch by phase; together they are the whole batch.

    Spark reads rows, computes and writes them in one go, `addBatch`; of that, `state` is what its operators say they
    spent on state in one task on average, and the rest is `writing`. `reading` is asking the sources what is new.
    """
    took: Mapping[str, int] = progress.get("durationMs") or {}
    whole = took.get("triggerExecution", 0)
    adding = took.get("addBatch", 0)
    state = min(adding, sum(_state(operator) for operator in progress.get("stateOperators") or []))
    found = {
        "planning": took.get("queryPlanning", 0),
        "reading": took.get("latestOffset", 0) + took.get("getBatch", 0) + took.get("getOffset", 0),
        "state": state,
        "writing": adding - state,
        "commit": took.get("walCommit", 0) + took.get("commitOffsets", 0) + took.get("commitBatch", 0),
    }
    found["other"] = max(0, whole - sum(found.values()))
    return {name: milliseconds / 1000 for name, milliseconds in found.items()}


def _state(operator: Mapping[str, Any]) -> float:
    spent = sum(operator.get(key, 0) for key in ("allUpdatesTimeMs", "allRemovalsTimeMs", "commitTimeMs"))
    return float(spent) / max(1, operator.get("numShufflePartitions") or 1)
