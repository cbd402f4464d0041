"""The event log read back."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path

from penstock.events import EventLog, EventTail, delete_before, first_day


def whats(following: EventTail) -> list[str]:
    return [event["what"] for event in following.new()]


def test_each_event_is_handed_out_once_in_order(tmp_path: Path):
    log, following = EventLog(str(tmp_path)), EventTail(str(tmp_path))
    log.record("started")
    log.record("stopped")

    assert whats(following) == ["started", "stopped"]
    assert whats(following) == []

    log.record("failed")
    assert whats(following) == ["failed"]


def test_a_line_that_is_still_being_written_waits_for_its_end(tmp_path: Path):
    file = tmp_path / "2024-01-01.jsonl"
    whole = json.dumps({"at": "2024-01-01T10:00:00+00:00", "what": "started"})
    following = EventTail(str(tmp_path))

    file.write_text(whole[:20])
    assert whats(following) == []

    file.write_text(whole + "\n")
    assert whats(following) == ["started"]


def test_a_torn_line_does_not_hide_what_comes_after_it(tmp_path: Path):
    file = tmp_path / "2024-01-01.jsonl"
    lines = ['{"at": "2024-01-01T10:0', "[1]", '{"what": 5}', '{"at": "2024-01-01T10:00:00+00:00", "what": "started"}']
    file.write_text("\n".join(lines) + "\n")
    following = EventTail(str(tmp_path))

    assert whats(following) == ["started"]
    assert following.broken == 3


def test_days_before_the_history_are_not_read_and_are_deleted_when_their_time_is_over(tmp_path: Path):
    for day in ("2024-01-01", "2024-01-08", "2024-01-09-101010"):
        (tmp_path / f"{day}.jsonl").write_text(json.dumps({"at": f"{day[:10]}T10:00:00+00:00", "what": day}) + "\n")
    (tmp_path / "notes.jsonl").write_text("")
    since = first_day(86_400, datetime(2024, 1, 9, 12, tzinfo=timezone.utc))

    assert whats(EventTail(str(tmp_path), since)) == ["2024-01-08", "2024-01-09-101010"]
    delete_before(str(tmp_path), since)

    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "2024-01-08.jsonl",
        "2024-01-09-101010.jsonl",
        "notes.jsonl",
    ]


def test_a_folder_that_is_not_there_has_no_events(tmp_path: Path):
    assert whats(EventTail(str(tmp_path / "none"))) == []
    assert delete_before(str(tmp_path / "none"), "2024-01-01") == []


def test_only_what_comes_later_is_followed_when_asked(tmp_path: Path):
    log, following = EventLog(str(tmp_path)), EventTail(str(tmp_path))
    log.record("started")
    following.skip_to_end()
    log.record("stopped")

    assert whats(following) == ["stopped"]
