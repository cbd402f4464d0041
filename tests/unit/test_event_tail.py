"""Reading the event log."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path

from penstock.events import EventLog, EventTail, delete_before, first_day


def names(tail: EventTail) -> list[str]:
    return [event["what"] for event in tail.read_new()]


def test_each_event_is_read_once_in_order(tmp_path: Path):
    log, tail = EventLog(str(tmp_path)), EventTail(str(tmp_path))
    log.append("started")
    log.append("stopped")

    assert names(tail) == ["started", "stopped"]
    assert names(tail) == []

    log.append("failed")
    assert names(tail) == ["failed"]


def test_a_line_that_is_still_being_written_waits_for_its_end(tmp_path: Path):
    file = tmp_path / "2024-01-01.jsonl"
    whole = json.dumps({"at": "2024-01-01T10:00:00+00:00", "what": "started"})
    tail = EventTail(str(tmp_path))

    file.write_text(whole[:20])
    assert names(tail) == []

    file.write_text(whole + "\n")
    assert names(tail) == ["started"]


def test_a_torn_line_does_not_hide_later_events(tmp_path: Path):
    file = tmp_path / "2024-01-01.jsonl"
    lines = ['{"at": "2024-01-01T10:0', "[1]", '{"what": 5}', '{"at": "2024-01-01T10:00:00+00:00", "what": "started"}']
    file.write_text("\n".join(lines) + "\n")
    tail = EventTail(str(tmp_path))

    assert names(tail) == ["started"]
    assert tail.broken == 3


def test_days_before_the_history_are_not_read_and_can_be_deleted(tmp_path: Path):
    for day in ("2024-01-01", "2024-01-08", "2024-01-09-101010"):
        (tmp_path / f"{day}.jsonl").write_text(json.dumps({"at": f"{day[:10]}T10:00:00+00:00", "what": day}) + "\n")
    (tmp_path / "notes.jsonl").write_text("")
    since = first_day(86_400, datetime(2024, 1, 9, 12, tzinfo=timezone.utc))

    assert names(EventTail(str(tmp_path), since)) == ["2024-01-08", "2024-01-09-101010"]
    delete_before(str(tmp_path), since)

    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "2024-01-08.jsonl",
        "2024-01-09-101010.jsonl",
        "notes.jsonl",
    ]


def test_a_missing_folder_has_no_events(tmp_path: Path):
    assert names(EventTail(str(tmp_path / "none"))) == []
    assert delete_before(str(tmp_path / "none"), "2024-01-01") == []


def test_after_a_skip_to_the_end_only_later_events_are_read(tmp_path: Path):
    log, tail = EventLog(str(tmp_path)), EventTail(str(tmp_path))
    log.append("started")
    tail.skip_to_end()
    log.append("stopped")

    assert names(tail) == ["stopped"]
