"""Reading the event log."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path

import pytest

from penstock import events
from penstock.events import EventLog, EventTail, delete_before, delete_oldest, first_day


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


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "_PART_BYTES", 1000)
    monkeypatch.setattr(events, "_MAX_BYTES", 5000)


def numbers(tail: EventTail) -> list[int]:
    return [event["number"] for event in tail.read_new()]


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("prefix", ["", "file://"])
def test_a_full_file_is_followed_by_the_next_and_the_log_is_read_in_order(tmp_path: Path, prefix: str):
    folder = prefix + str(tmp_path)
    log, following = EventLog(folder), EventTail(folder)
    read: list[int] = []
    for number in range(30):
        log.append("x", number=number, text="y" * 60)
        read += numbers(following)

    assert read == numbers(EventTail(folder)) == list(range(30))
    assert len(list(tmp_path.iterdir())) > 3


@pytest.mark.usefixtures("small_parts")
def test_the_tenth_file_of_a_day_comes_after_the_ninth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(events, "_MAX_BYTES", 10**9)
    log = EventLog(str(tmp_path))
    for number in range(110):
        log.append("x", number=number, text="y" * 60)

    assert numbers(EventTail(str(tmp_path))) == list(range(110))


@pytest.mark.usefixtures("small_parts")
def test_supervisor_and_driver_go_on_to_the_next_file_together(tmp_path: Path):
    supervisor, driver = EventLog(str(tmp_path)), EventLog(str(tmp_path))
    for number in range(30):
        (supervisor if number % 10 == 0 else driver).append("x", number=number, text="y" * 60)

    assert numbers(EventTail(str(tmp_path))) == list(range(30))


@pytest.mark.usefixtures("small_parts")
def test_a_log_that_is_too_large_loses_its_oldest_files_and_never_the_newest_event(tmp_path: Path):
    (tmp_path / "2024-01-01.jsonl").write_text("x" * 2000)
    log = EventLog(str(tmp_path))
    for number in range(200):
        log.append("x", number=number, text="y" * 60)
        # One event may be longer than what is left of a file.
        assert sum(file.stat().st_size for file in tmp_path.iterdir()) < 5200

    left = numbers(EventTail(str(tmp_path)))
    assert left == list(range(left[0], 200))
    assert len(left) > 20


def test_one_large_file_is_kept_and_other_files_are_left_alone(tmp_path: Path):
    for name in ("2024-01-01.jsonl", "2024-01-02.jsonl", "notes.jsonl"):
        (tmp_path / name).write_text("x" * 1000)

    assert delete_oldest(str(tmp_path), 10) == [str(tmp_path / "2024-01-01.jsonl")]


def test_a_file_that_is_deleted_while_it_is_read_is_skipped(tmp_path: Path):
    for day in (1, 2):
        line = json.dumps({"at": f"2024-01-0{day}T10:00:00+00:00", "what": "x", "number": day})
        (tmp_path / f"2024-01-0{day}.jsonl").write_text(line + "\n")
    tail = EventTail(str(tmp_path))
    listed = tail._files()
    (tmp_path / "2024-01-01.jsonl").unlink()
    tail._files = lambda: listed  # type: ignore[method-assign]

    assert numbers(tail) == [2]
