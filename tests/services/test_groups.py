"""commit_to_group, listeners and webhooks of a pipeline that runs as a user runs it."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from tests.services.command import penstock
from tests.services.fixtures import Kafka

PIPELINE = """
    name: grouped
    listeners: ["mine:Counting", "mine:Broken"]
    sources:
      numbers:
        kafka: {{servers: "{servers}", topics: [{topic}], start: earliest, commit_to_group: grouped-lag}}
        json: n int
    sinks:
      all: {{from: numbers, files: {{path: out, format: json}}}}
      also: {{from: numbers, memory: {{}}}}
"""
LISTENERS = """
    from pathlib import Path
    from pyspark.sql.streaming.listener import StreamingQueryListener

    class Counting(StreamingQueryListener):
        def onQueryStarted(self, event): note("started " + event.name)
        def onQueryProgress(self, event): note("progress " + event.progress.name)
        def onQueryIdle(self, event): pass
        def onQueryTerminated(self, event): note("terminated")

    class Broken(Counting):
        def onQueryStarted(self, event): raise RuntimeError("listener is broken")
        def onQueryProgress(self, event): pass
        def onQueryTerminated(self, event): pass

    def note(text):
        with Path(__file__).with_name("heard").open("a") as file:
            file.write(text + "\\n")
"""


def test_what_is_processed_is_committed_listeners_hear_of_it_and_status_has_lag_and_promise(
    kafka: Kafka, tmp_path: Path
):
    topic = kafka.create()
    kafka.send(topic, *(json.dumps({"n": n}) for n in range(7)), partition=0)
    kafka.send(topic, *(json.dumps({"n": n}) for n in range(4)), partition=1)
    (tmp_path / "grouped.yaml").write_text(textwrap.dedent(PIPELINE.format(servers=kafka.address, topic=topic)))
    (tmp_path / "mine.py").write_text(textwrap.dedent(LISTENERS))

    ran = penstock("run", "grouped.yaml", "--once", folder=tmp_path)

    assert ran.returncode == 0, ran.stderr
    consumer = Consumer({"bootstrap.servers": kafka.address, "group.id": "grouped-lag"})
    committed = consumer.committed([TopicPartition(topic, 0), TopicPartition(topic, 1)], timeout=30)
    consumer.close()
    assert [each.offset for each in committed] == [7, 4]
    heard = (tmp_path / "heard").read_text().splitlines()
    assert {"started all", "started also", "progress all", "progress also", "terminated"} <= set(heard)
    events = [json.loads(line) for file in (tmp_path / ".penstock/grouped/events").iterdir() for line in file.open()]
    broken = [event for event in events if event["what"] == "listener_failed"]
    assert {event["reason"] for event in broken} == {"RuntimeError: listener is broken"}
    assert [event["what"] for event in events if event["what"] not in ("batch", "listener_failed")] == [
        *("lease_taken", "driver_started", "started"),
        *("stopped", "driver_ended", "lease_released"),
    ]
    read = [
        (event["progress"]["name"], event["progress"]["numInputRows"]) for event in events if event["what"] == "batch"
    ]
    assert {name: sum(rows for each, rows in read if each == name) for name in ("all", "also")} == {
        "all": 11,
        "also": 11,
    }

    (view,) = json.loads(penstock("status", "grouped.yaml", "--json", folder=tmp_path).stdout)
    files, memory = view["queries"]
    assert (view["state"], view["starts"]) == ("stopped", 1)
    assert files["behind"] == {"numbers": {f"{topic}/0": 0, f"{topic}/1": 0}}
    assert files["promise"].startswith("files: exactly-once")
    assert (files["rows_in"], memory["rows_in"]) == (11, 11)


def test_a_listener_that_is_not_there_or_is_none_is_said_before_anything_starts(project, refusal):
    project.put("no_listener.py", "class Nothing: pass\n")
    text = "sources: {a: {rate: }}\nsinks: {b: {from: a, memory: {}}}\nlisteners: ['no_listener:Nothing']\n"

    said = refusal(project.run, text, checked=False)

    assert "the listener 'no_listener:Nothing' has no 'onQueryStarted'; derive it from StreamingQueryListener" in said
    assert project.spark.streams.active == []
