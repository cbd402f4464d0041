"""What is verified before Spark starts, on a storage that was written without Spark."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pydantic import Field, SkipValidation

from penstock.connector import Gap, SourceOptions
from penstock.driver.preflight import CheckpointError, Preflight, find_gaps
from penstock.driver.recorder import append_batch, sink_storages
from penstock.errors import RunError
from penstock.load import load
from penstock.model import Pipeline
from penstock.storage.files import RecordError
from penstock.storage.layout import Storage
from penstock.storage.verify import SinkStorage

META = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 1, "conf": {}})
LOST = Gap("t", 0, 100, 150, "deleted by the broker")


class TopicSource(SourceOptions):
    """A topic that answers as it is told."""

    kind: ClassVar[str] = "topic"

    ids: dict[str, str] = Field(default={"t": "id-1"}, description="The ids of the topics.")
    moved: SkipValidation[Any] = Field(default=None, description="Where to continue; where it was by default.")
    gaps: SkipValidation[Any] = Field(default=(), description="What is gone.")
    asked: SkipValidation[Any] = Field(default=None, description="Gets what `resume` is called with.")

    skips_lost_data: ClassVar[bool] = True

    def read(self, spark):
        raise NotImplementedError

    def identity(self):
        return self.ids

    def reads_positions(self, positions):
        return isinstance(positions, dict) and "t" in positions

    def resume(self, positions, identity):
        if self.asked is not None:
            self.asked.append((positions, dict(identity)))
        return self.moved or positions, list(self.gaps)

    def missing(self, start, end, rows):
        lost = end["t"]["0"] - start["t"]["0"] - rows
        return [Gap("t", 0, start["t"]["0"], start["t"]["0"] + lost, "deleted while it was read")] if lost else []


class Stored:
    """A pipeline with three committed batches in its storage, and what its preflight emits."""

    def __init__(self, folder: Path) -> None:
        file = folder / "p.yaml"
        file.write_text("name: p\nsources: {topic: {rate: {}}}\nsinks:\n  out: {from: topic, files: {path: lake}}\n")
        self.pipeline = self.reading(TopicSource(), load(file))
        self.storage = Storage.of(self.pipeline)
        self.events: list[tuple[str, dict[str, Any]]] = []

    def reading(self, source: TopicSource, pipeline: Pipeline | None = None) -> Pipeline:
        before = pipeline or self.pipeline
        return replace(before, sources=(replace(before.sources[0], connector=source),))

    @property
    def sink(self) -> SinkStorage:
        return sink_storages(self.pipeline, self.storage)["out"]

    def put(self, number: int, *, committed: bool = True, journaled: bool = True) -> None:
        """A batch as Spark and the driver leave it."""
        place = Path(self.storage.checkpoint("out"))
        for log in ("offsets", "commits"):
            (place / log).mkdir(parents=True, exist_ok=True)
        (place / "metadata").write_text('{"id":"a-query"}')
        (place / "offsets" / str(number)).write_text(f'v1\n{META}\n{{"t":{{"0":{number * 100}}}}}')
        if committed:
            (place / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs":0}')
        if journaled:
            append_batch(self.sink, {"name": "out", "batchId": number, "sources": []})

    def run(self, source: TopicSource | None = None) -> None:
        pipeline = self.reading(source) if source else self.pipeline
        emit = lambda what, **facts: self.events.append((what, facts))  # noqa: E731
        Preflight(pipeline, self.storage, emit).run()

    def positions(self, number: int) -> Any:
        return self.sink.checkpoint.offsets(number)


@pytest.fixture
def stored(tmp_path: Path) -> Stored:
    made = Stored(tmp_path)
    for number in range(3):
        made.put(number)
    return made


def test_a_first_start_has_nothing_to_verify_and_keeps_the_identities(tmp_path: Path):
    stored = Stored(tmp_path)

    stored.run()

    assert stored.events == []
    assert stored.storage.read_source("topic") == {"t": "id-1"}


def test_a_checkpoint_as_we_left_it_is_continued_from(stored: Stored):
    stored.run()

    assert stored.events == []
    assert stored.positions(2) == [{"t": {"0": 200}}]


def test_the_source_is_asked_with_the_positions_and_identities_of_the_last_run(stored: Stored):
    asked: list[Any] = []
    stored.run()

    stored.run(TopicSource(ids={"t": "id-2"}, asked=asked))

    assert asked == [({"t": {"0": 200}}, {"t": "id-1"})]
    assert stored.storage.read_source("topic") == {"t": "id-2"}


def test_a_missing_checkpoint_with_a_journal_is_refused(stored: Stored):
    shutil.rmtree(stored.storage.checkpoint("out"))

    with pytest.raises(CheckpointError) as caught:
        stored.run()

    text = str(caught.value)
    assert text.startswith(f"{stored.pipeline.sinks[0].at}: sink 'out': no checkpoint at ")
    assert "but batch 2 was committed" in text
    assert text.endswith("restore the checkpoint from a backup, or start over with `penstock reset`")


def test_everything_that_is_wrong_is_named_at_once(stored: Stored):
    for number in (1, 2):
        Path(stored.storage.checkpoint("out"), "offsets", str(number)).write_text("v1")

    with pytest.raises(CheckpointError) as caught:
        stored.run()

    assert "offsets/1 is cut short" in str(caught.value)
    assert "offsets/2 is cut short" in str(caught.value)


def test_a_first_batch_in_progress_is_not_replayed_from_a_recreated_topic(tmp_path: Path):
    stored = Stored(tmp_path)
    stored.run()
    stored.put(0, committed=False, journaled=False)
    recreated = TopicSource(ids={"t": "id-2"}, moved={"t": {"0": 7}}, gaps=(Gap("t", 0, 0, 0, "recreated"),))

    with pytest.raises(RunError, match="its records belong to a topic that is gone; start over with `penstock reset`"):
        stored.run(recreated)


def test_a_damaged_record_of_a_topic_s_id_is_named(stored: Stored):
    stored.run()
    Path(stored.storage.source("topic")).write_text("{")

    with pytest.raises(RecordError, match=r"topic.json is damaged: .*; `penstock checkpoint restore` removes it"):
        stored.run()


def test_batches_that_were_committed_just_before_a_crash_are_journaled(stored: Stored):
    stored.put(3, journaled=False)

    stored.run()

    assert stored.events == [
        ("checkpoint", {"sink": "out", "says": "1 batches were committed just before a crash"}),
    ]
    assert stored.sink.journal.read(3).adopted


def test_gaps_are_emitted_and_the_checkpoint_continues_after_them(stored: Stored):
    stored.run(TopicSource(moved={"t": {"0": 250}}, gaps=(LOST,)))

    gap = {"topic": "t", "partition": 0, "start": 100, "end": 150, "count": 50, "why": "deleted by the broker"}
    assert stored.events == [("gap", {"sink": "out", "source": "topic", **gap})]
    assert stored.positions(2) == [{"t": {"0": 250}}]
    stored.events.clear()

    stored.run()
    assert stored.events == []


def test_a_gap_while_a_batch_is_in_progress_does_not_change_the_checkpoint(stored: Stored):
    stored.put(3, committed=False, journaled=False)

    stored.run(TopicSource(moved={"t": {"0": 250}}, gaps=(LOST,)))

    assert [what for what, _ in stored.events] == ["gap"]
    assert stored.positions(2) == [{"t": {"0": 200}}]


def test_a_topic_that_was_recreated_while_a_batch_is_in_progress_is_refused(stored: Stored):
    stored.put(3, committed=False, journaled=False)
    recreated = Gap("t", 0, 0, 0, "recreated")

    with pytest.raises(RunError) as caught:
        stored.run(TopicSource(moved={"t": {"0": 0}}, gaps=(recreated,)))

    assert str(caught.value) == (
        f"{stored.pipeline.sources[0].at}: source 'topic': a batch is in progress, and its records belong to a topic "
        "that is gone; start over with `penstock reset`"
    )


def test_an_error_of_a_source_names_the_source(stored: Stored):
    class Strict(TopicSource):
        def resume(self, positions, identity):  # noqa: ARG002
            raise RunError("records are gone")

    with pytest.raises(RunError) as caught:
        stored.run(Strict())

    assert str(caught.value) == f"{stored.pipeline.sources[0].at}: source 'topic': records are gone"


def test_records_that_a_batch_did_not_get_are_a_gap(stored: Stored):
    read = {"startOffset": {"t": {"0": 100}}, "endOffset": '{"t": {"0": 200}}', "numInputRows": 70}

    (gap,) = find_gaps(stored.pipeline, {"name": "out", "sources": [read]})

    assert gap == {
        "sink": "out",
        "source": "topic",
        "topic": "t",
        "partition": 0,
        "start": 100,
        "end": 130,
        "count": 30,
        "why": "deleted while it was read",
    }


def test_the_first_batch_and_other_sources_have_no_gaps(stored: Stored):
    first = {"startOffset": None, "endOffset": {"t": {"0": 200}}, "numInputRows": 70}
    other = {"startOffset": 0, "endOffset": 5, "numInputRows": 1}

    assert list(find_gaps(stored.pipeline, {"name": "out", "sources": [first, other]})) == []
