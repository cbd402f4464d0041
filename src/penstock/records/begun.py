"""What the batch at work is of, kept before any target has a row of it: Spark never syncs its own files.

A power cut can leave `offsets/7` empty while a target has batch 7. Without its offsets the batch would get other rows,
and that target would skip them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from penstock.records import durable
from penstock.records.checkpoint import Checkpoint, texts
from penstock.records.journal import RecordError


def keep(url: str, checkpoint: Checkpoint, batch: int) -> None:
    """Copy the small files that a batch begins with: on the disk when this returns. Object stores lose none."""
    if durable.is_local(url):
        durable.replace(f"{url}/begun", json.dumps({"batch": batch, "texts": texts(checkpoint.files(batch))}))


def kept(url: str) -> tuple[int, Mapping[str, str]]:
    """The batch that was begun last and its files; batch -1 if none was."""
    content = durable.read(f"{url}/begun")
    if content is None:
        return -1, {}
    try:
        found = json.loads(content)
        return int(found["batch"]), found["texts"]
    except (ValueError, KeyError, TypeError) as error:
        fix = "restore it from a backup, or delete it: what the last batch was of is then not known"
        raise RecordError(f"{url}/begun is damaged: {error}; {fix}") from error
