"""What is on the disk before a batch is journaled."""

from __future__ import annotations

import json
from pathlib import Path

from penstock.driver.recorder import journal_missing_commits
from penstock.storage import files
from penstock.storage.layout import Storage
from penstock.storage.verify import SinkStorage


def test_a_compacted_log_of_an_output_syncs_the_files_of_its_own_batch(tmp_path: Path, monkeypatch):
    log = tmp_path / "out" / "_spark_metadata"
    storage = Storage(str(tmp_path / "storage"))
    checkpoint = Path(storage.checkpoint("out"))
    for folder in (log, checkpoint / "offsets", checkpoint / "commits"):
        folder.mkdir(parents=True)
    (checkpoint / "metadata").write_text('{"id":"q"}')
    (checkpoint / "offsets" / "2").write_text('v1\n{"batchWatermarkMs":0}\n{}')
    (checkpoint / "commits" / "2").write_text('v1\n{"nextBatchWatermarkMs":0}')
    data = [tmp_path / "out" / f"part-{number}.json" for number in range(3)]
    for file in data:
        file.write_text("{}")
    entries = [json.dumps({"path": f"file://{file}", "size": 2}) for file in data]
    for number in (0, 1):
        (log / str(number)).write_text(f"v1\n{entries[number]}")
    (log / "2.compact").write_text("\n".join(["v1", *entries]))
    synced: list[Path] = []
    monkeypatch.setattr(files, "fsync_files", lambda paths: synced.extend(paths))

    journal_missing_commits(SinkStorage("out", storage, str(log)))

    assert {data[2], log / "2.compact"} <= set(synced)
    assert not {data[0], data[1]} & set(synced)
