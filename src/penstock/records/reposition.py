"""A checkpoint moved on purpose: where a source goes on after records that are gone."""

from __future__ import annotations

import json
from typing import Any

from penstock.records import durable
from penstock.records.checkpoint import Checkpoint


def move(checkpoint: Checkpoint, batch: int, line: int, positions: Any) -> None:
    """Let one source go on from other positions after a committed batch; state and batch numbers stay."""
    name = f"offsets/{batch}"
    lines = (checkpoint.read(name) or b"").decode().split("\n")
    lines[2 + line] = json.dumps(positions, separators=(",", ":"))
    durable.replace(f"{checkpoint.url}/{name}", "\n".join(lines))
    durable.forget_crc(f"{checkpoint.url}/{name}")
