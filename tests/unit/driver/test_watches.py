from __future__ import annotations

import threading
from pathlib import Path

import pytest

from penstock.driver import watches as module
from penstock.driver.watches import DiskWatch, StallWatch, TopicWatch, probe_sources
from penstock.errors import PenstockError, UnreachableError
from penstock.load import load


class Emitted:
    """Keeps events; `there` is set when one was emitted."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict]] = []
        self.there = threading.Event()

    def __call__(self, what: str, **facts: object) -> None:
        self.events.append((what, facts))
        self.there.set()


def busy(seconds: float) -> dict[str, dict]:
    return {"out": {"active": True, "busy_seconds": seconds, "says": "Getting offsets"}}


def test_a_query_that_stays_in_its_batch_is_stalled_once_and_then_resumed():
    emitted = Emitted()
    stalls = StallWatch(emitted, lambda sink: f"the broker of {sink} does not answer")
    stalls.take_batch({"name": "out", "durationMs": {"triggerExecution": 2000}})

    stalls.look(busy(14.0))
    stalls.look(busy(16.0))
    assert emitted.there.wait(10)
    again = stalls.look(busy(17.0))
    stalls.look(busy(0.0))

    reason = "the broker of out does not answer"
    assert again["out"]["stalled"] == reason
    assert emitted.events == [
        ("stalled", {"sink": "out", "seconds": 16.0, "reason": reason}),
        ("resumed", {"sink": "out"}),
    ]


def test_a_batch_may_take_three_times_as_long_as_the_last_and_the_first_a_minute():
    emitted = Emitted()
    stalls = StallWatch(emitted, lambda _sink: "")

    stalls.look(busy(59.0))
    stalls.take_batch({"name": "out", "durationMs": {"triggerExecution": 30_000}})
    stalls.look(busy(89.0))
    assert emitted.events == []

    stalls.look(busy(91.0))
    assert emitted.there.wait(10)
    assert emitted.events == [("stalled", {"sink": "out", "seconds": 91.0, "reason": "Spark says: Getting offsets"})]


def test_the_reason_is_the_first_system_that_cannot_be_reached(tmp_path):
    file = tmp_path / "p.yaml"
    file.write_text("""
sources:
  ticks: {rate: {}}
  events: {kafka: {servers: "127.0.0.1:1", topics: [events]}, value: string}
steps:
  both: SELECT value FROM events UNION ALL SELECT string(value) FROM ticks
sinks:
  out: {from: both, console: {}}
  own: {from: ticks, console: {}}
""")
    pipeline = load(file)

    assert probe_sources(pipeline, "own") == ""
    assert probe_sources(pipeline, "out").startswith("source 'events': ")
    assert "127.0.0.1:1" in probe_sources(pipeline, "out")


DISKS = Path("/storage"), Path("/tmp/spark")
GB = 10**9


def test_a_disk_that_is_almost_full_is_reported_once_each_time_that_it_becomes_so():
    emitted, free = Emitted(), {DISKS[0]: 40 * GB, DISKS[1]: 40 * GB}
    disks = DiskWatch(emitted, DISKS)

    for gigabytes in (40, 6, 4, 3, 10, 4):
        free[DISKS[0]] = gigabytes * GB
        disks.look(lambda folder: (100 * GB, 0, free[folder]))

    low = {"path": "/storage", "free_bytes": 4 * GB, "total_bytes": 100 * GB}
    assert emitted.events == [("disk_low", low), ("disk_low", low)]


def test_a_small_disk_is_almost_full_at_half_a_gigabyte():
    emitted = Emitted()

    DiskWatch(emitted, DISKS[:1]).look(lambda _folder: (2 * GB, 0, GB // 2 - 1))

    assert [what for what, _ in emitted.events] == ["disk_low"]


def test_disks_are_looked_at_from_a_thread_and_a_folder_that_is_not_there_is_none(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_LEAST_FREE_SHARE", 1.1)
    emitted = Emitted()
    disks = DiskWatch(emitted, [tmp_path / "none", tmp_path])

    disks.start()

    assert emitted.there.wait(10)
    disks.stop()
    assert [facts["path"] for _, facts in emitted.events] == [str(tmp_path)]


@pytest.mark.parametrize(
    ("storage", "folders"),
    [
        ("/data/p", ["/data/p", "/tmp/spark"]),
        ("file:///data/p", ["/data/p", "/tmp/spark"]),
        ("s3://bucket/p", ["/tmp/spark"]),
    ],
)
def test_the_disks_are_those_of_the_storage_and_of_spark(storage: str, folders: list[str]):
    assert [str(each) for each in DiskWatch.of(storage, DISKS[1], Emitted()).folders] == folders


def test_one_disk_is_watched_once(tmp_path):
    (tmp_path / "storage").mkdir()

    assert DiskWatch.of(str(tmp_path / "storage"), tmp_path, Emitted()).folders == [tmp_path / "storage"]


def test_topics_are_watched_on_whatever_a_broker_answers_and_a_failure_is_reported_once(tmp_path, monkeypatch):
    file = tmp_path / "p.yaml"
    file.write_text("sources: {ticks: {rate: {}}}\nsinks: {out: {from: ticks, console: {}}}\n")
    refused = PenstockError("access to the topic was revoked")
    answers = iter([{"t": "1"}, refused, refused, ValueError("?"), {"t": "1"}, UnreachableError("down"), {"t": "2"}])

    def ask(_source: object) -> dict[str, str]:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(module, "identity", ask)
    monkeypatch.setattr(module, "_TOPIC_SECONDS", 0.01)
    woken, emitted = threading.Event(), Emitted()
    topics = TopicWatch(load(file), woken.set, emitted)

    topics.start()

    assert woken.wait(20), "the thread has died"
    assert "recreated" in str(topics.failure)
    assert emitted.events == [
        ("topic_watch_failed", {"source": "ticks", "reason": "access to the topic was revoked"}),
    ]
