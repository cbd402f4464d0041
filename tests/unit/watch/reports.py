"""Progress reports as Spark 4.2 writes them, and event logs made of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

MANIFEST = {
    "name": "trades",
    "file": "",
    "history_seconds": 604_800.0,
    "nodes": [
        {"name": "trades", "role": "source", "kind": "kafka", "reads": [], "static": False, "place": ["trades"]},
        {"name": "totals", "role": "step", "kind": "sql", "reads": ["trades"]},
        {
            "name": "board",
            "role": "sink",
            "kind": "kafka",
            "reads": ["totals"],
            "mode": "update",
            "trigger": "default",
            "targets": [{"name": "kafka", "kind": "kafka", "promise": "at-least-once"}],
        },
    ],
}


def progress(batch: int = 0, *, rows: int = 500, end: int = 250, latest: int = 250, **more: Any) -> dict[str, Any]:
    """One batch of a windowed count over a topic of two partitions."""
    return {
        "id": "0abf0bc2-40a0-4e98-bd09-8c215b3a4bee",
        "name": "board",
        "timestamp": "2024-01-01T10:00:00.000Z",
        "batchId": batch,
        "numInputRows": rows,
        "inputRowsPerSecond": 100.0,
        "processedRowsPerSecond": 250.0,
        "durationMs": {
            "addBatch": 1300,
            "commitOffsets": 100,
            "getBatch": 50,
            "latestOffset": 150,
            "queryPlanning": 200,
            "triggerExecution": 2000,
            "walCommit": 100,
        },
        "eventTime": {"watermark": "2024-01-01T09:58:00.000Z"},
        "stateOperators": [
            {
                "operatorName": "stateStoreSave",
                "numRowsTotal": 4,
                "allUpdatesTimeMs": 500,
                "allRemovalsTimeMs": 0,
                "commitTimeMs": 100,
                "memoryUsedBytes": 4272,
                "numShufflePartitions": 2,
                "customMetrics": {"rocksdbSstFileSize": 900},
            }
        ],
        "sources": [
            {
                "description": "KafkaV2[Subscribe[trades]]",
                "startOffset": None,
                "endOffset": {"trades": {"0": end, "1": end}},
                "latestOffset": {"trades": {"0": latest, "1": end}},
                "numInputRows": rows,
                "inputRowsPerSecond": 100.0,
            }
        ],
        "sink": {"numOutputRows": 12},
        "observedMetrics": {"bad_records:trades": {"bad": 2}},
        **more,
    }


def event(what: str, at: str, **facts: Any) -> dict[str, Any]:
    """An event as the log has it."""
    return {"at": f"2024-01-01T{at}.000+00:00", "what": what, **facts}


def write_log(storage: Path, name: str, events: list[dict[str, Any]], manifest: dict[str, Any] | None = None) -> Path:
    """A pipeline's folder with these events, kept forever."""
    folder = storage / name / "events"
    folder.mkdir(parents=True, exist_ok=True)
    content = {**(manifest or MANIFEST), "name": name, "history_seconds": 1e9}
    (storage / name / "pipeline.json").write_text(json.dumps(content))
    with (folder / "2024-01-01.jsonl").open("a") as file:
        file.writelines(json.dumps(each) + "\n" for each in events)
    return folder
