from __future__ import annotations

import json
import threading
from pathlib import Path

from penstock.events import EventLog


def test_facts_are_appended_line_by_line_also_by_the_next_run(tmp_path: Path):
    folder = tmp_path / "events"
    for run in (1, 2):
        log = EventLog(str(folder))
        log.record("started", run=run)
        log.close()

    events = [json.loads(line) for file in folder.iterdir() for line in file.read_text().splitlines()]
    assert [(event["what"], event["run"]) for event in events] == [("started", 1), ("started", 2)]


def test_threads_do_not_write_into_each_others_lines(tmp_path: Path):
    log = EventLog(str(tmp_path / "events"))
    threads = [threading.Thread(target=lambda: [log.record("x", text="y" * 500) for _ in range(100)]) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    (file,) = (tmp_path / "events").iterdir()
    assert len([json.loads(line) for line in file.read_text().splitlines()]) == 800
