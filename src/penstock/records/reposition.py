"""A checkpoint moved on purpose: where a source goes on after records that are gone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from penstock.records import durable
from penstock.records.checkpoint import Checkpoint


def move(checkpoint: Checkpoint, batch: int, line: int, positions: Any) -> None:
    """Let one source go on from other positions after a committed batch; state and batch numbers stay."""
    name = f"offsets/{batch}"
    lines = (checkpoint.read(name) or b"").decode().split("\n")
    lines[2 + line] = json.dumps(positions, separators=(",", ":"))
    durable.replace(f"{checkpoint.url}/{name}", "\n".join(lines))
    if durable.is_local(checkpoint.url):
        # Hadoop's checksum of the file as it was.
        Path(checkpoint.url, "offsets", f".{batch}.crc").unlink(missing_ok=True)
