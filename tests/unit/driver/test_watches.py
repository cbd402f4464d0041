from __future__ import annotations

import threading

from penstock.driver.watches import StallWatch, probe_sources
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
