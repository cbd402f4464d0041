"""Every difference between a checkpoint and its records that Spark would not notice."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from penstock.driver.recorder import append_batch, journal_missing_commits
from penstock.storage.journal import RecordError
from penstock.storage.layout import Storage
from penstock.storage.ledger import write_intent
from penstock.storage.restore import BackupError, backup, from_backup, from_journal, reset_sink
from penstock.storage.verify import SinkStorage, find_problems

META = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 1, "conf": {}})


@pytest.fixture
def sink(tmp_path: Path) -> SinkStorage:
    """A sink with three committed batches on record, as Spark and we leave them."""
    known = SinkStorage("out", Storage(str(tmp_path)), f"{tmp_path}/lake/_spark_metadata")
    for number in range(3):
        put(known, number)
        append_batch(known, {"name": "out", "batchId": number, "sources": []})
    return known


def put(known: SinkStorage, number: int) -> None:
    place, log = Path(known.checkpoint.url), Path(known.log_url)
    for folder in (place / "offsets", place / "commits", log):
        folder.mkdir(parents=True, exist_ok=True)
    (place / "metadata").write_text('{"id":"a-query"}')
    (place / "offsets" / str(number)).write_text(f'v1\n{META}\n{{"t":{{"0":{number * 100}}}}}')
    (place / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    (log / str(number)).write_text(f'v1\n{{"path":"part-{number}"}}')


def said(known: SinkStorage) -> str:
    return "\n".join(str(problem) for problem in find_problems(known))


def test_what_was_left_is_well(sink: SinkStorage):
    assert find_problems(sink) == []


def test_a_flipped_digit_is_noticed_and_put_back(sink: SinkStorage):
    file = Path(sink.checkpoint.url, "offsets", "2")
    file.write_text(file.read_text().replace("200", "100"))

    assert "offsets/2 has changed since batch 2 was committed" in said(sink)
    assert from_journal(sink) == ["offsets/2"]
    assert find_problems(sink) == []
    assert "200" in file.read_text()


@pytest.mark.parametrize("text", ["", "v1", "v1\n{", "garbage", "v1\n{}\n{"])
def test_a_damaged_file_is_named_and_put_back(sink: SinkStorage, text: str):
    Path(sink.checkpoint.url, "offsets", "2").write_text(text)

    assert f"{sink.checkpoint.url}/offsets/2" in said(sink)
    from_journal(sink)
    assert find_problems(sink) == []


def test_a_rollback_by_hand_is_noticed(sink: SinkStorage):
    for log in ("offsets", "commits"):
        Path(sink.checkpoint.url, log, "2").unlink()

    assert "ends with batch 1, but batch 2 is in the journal" in said(sink)
    assert f"batch 2 is in {sink.log_url}" in said(sink)


def test_a_new_checkpoint_over_old_output_is_refused(sink: SinkStorage):
    shutil.rmtree(sink.checkpoint.url)

    assert "no checkpoint at" in said(sink)
    assert "Spark would skip the first 3 batches" in said(sink)


def test_a_new_checkpoint_is_refused_too_when_all_our_own_files_are_gone(sink: SinkStorage):
    shutil.rmtree(Path(sink.storage.url, "checkpoints"))
    shutil.rmtree(Path(sink.storage.url, "ledger"))

    assert "Spark would skip the first 3 batches" in said(sink)


def test_the_checkpoint_of_another_query_is_refused(sink: SinkStorage):
    Path(sink.checkpoint.url, "metadata").write_text('{"id":"b-query"}')

    assert "is of query b-query, the journal is of a-query" in said(sink)


@pytest.mark.parametrize("damage", ["gone", "cut", "moved"])
def test_a_damaged_log_of_the_output_is_noticed(sink: SinkStorage, damage: str):
    log = Path(sink.log_url)
    if damage == "gone":
        (log / "2").unlink()
    elif damage == "cut":
        (log / "2").write_text("v1")
    else:
        log.rename(log.with_name("elsewhere"))

    assert f"{log}/2" in said(sink)


def test_a_target_that_is_ahead_is_a_rollback(sink: SinkStorage):
    Path(sink.storage.url, "ledger", "out", "kafka.json").write_text('{"query": "a-query", "batch": 7}')

    assert "batch 7 is in target 'kafka'" in said(sink)


def test_a_batch_that_was_committed_just_before_a_crash_is_adopted(sink: SinkStorage):
    put(sink, 3)

    assert find_problems(sink) == []
    assert journal_missing_commits(sink) == 1
    assert sink.journal.read(3).adopted
    file = Path(sink.checkpoint.url, "offsets", "3")
    file.write_text(file.read_text().replace("300", "200"))
    assert "offsets/3 has changed" in said(sink)


def test_offsets_that_a_power_cut_left_empty_are_removed_when_no_target_has_their_batch(sink: SinkStorage):
    Path(sink.checkpoint.url, "offsets", "3").write_text("")

    assert "offsets/3 is empty" in said(sink)
    assert "offsets/3 (removed" in from_journal(sink)[0]
    assert find_problems(sink) == []


def test_offsets_that_a_power_cut_left_empty_stay_when_a_target_has_their_batch(sink: SinkStorage):
    Path(sink.checkpoint.url, "offsets", "3").write_text("")
    Path(sink.storage.url, "ledger", "out", "kafka.json").write_text('{"query": "a-query", "batch": 3}')

    assert from_journal(sink) == []
    assert "offsets/3 is empty" in said(sink)


def test_offsets_of_a_batch_that_was_begun_are_put_back(sink: SinkStorage):
    put(sink, 3)
    Path(sink.checkpoint.url, "commits", "3").unlink()
    write_intent(sink.storage, sink.name, 3)
    offsets = Path(sink.checkpoint.url, "offsets", "3")
    held = offsets.read_text()
    offsets.write_text("")
    Path(sink.storage.url, "ledger", "out", "kafka.json").write_text('{"query": "a-query", "batch": 3}')

    assert "offsets/3 is empty" in said(sink)
    assert from_journal(sink) == ["offsets/3"]
    assert find_problems(sink) == []
    assert offsets.read_text() == held


def test_a_damaged_copy_of_what_was_begun_is_an_error_and_not_a_guess(sink: SinkStorage):
    Path(sink.storage.intent(sink.name)).write_text("{")

    with pytest.raises(RecordError, match=r"begun is damaged: .*; restore it from a backup, or delete it"):
        from_journal(sink)


def test_a_commit_that_a_power_cut_left_empty_before_it_was_on_record_is_done_again(sink: SinkStorage):
    put(sink, 3)
    Path(sink.checkpoint.url, "commits", "3").write_text("")

    assert "commits/3 is empty" in said(sink)
    assert "commits/3 (removed" in from_journal(sink)[0]
    assert find_problems(sink) == []
    assert sink.checkpoint.numbers("offsets")[-1] == 3, "the batch keeps its rows"


def test_a_commit_that_a_power_cut_left_empty_is_written_anew_when_the_next_batch_was_begun(sink: SinkStorage):
    put(sink, 3)
    put(sink, 4)
    commits = Path(sink.checkpoint.url, "commits")
    (commits / "3").write_text("")
    (commits / "4").unlink()
    following = Path(sink.checkpoint.url, "offsets", "4")
    following.write_text(following.read_text().replace('"batchWatermarkMs": 0', '"batchWatermarkMs": 77'))

    assert "commits/3 (rewritten" in from_journal(sink)[0]
    assert (commits / "3").read_text() == 'v1\n{"nextBatchWatermarkMs":77}'
    assert find_problems(sink) == []


def test_a_commit_is_no_guess_when_the_offsets_after_it_are_damaged_too(sink: SinkStorage):
    put(sink, 3)
    Path(sink.checkpoint.url, "commits", "3").write_text("")
    Path(sink.checkpoint.url, "offsets", "4").write_text("")
    Path(sink.storage.url, "ledger", "out", "kafka.json").write_text('{"query": "a-query", "batch": 4}')

    assert from_journal(sink) == []
    assert "commits/3 is empty" in said(sink)
    assert "offsets/4 is empty" in said(sink)


def test_a_damaged_record_is_an_error_and_not_a_guess(sink: SinkStorage):
    file = Path(sink.journal.url, "2.json")
    file.write_text(file.read_text().replace("a-query", "b-query"))

    assert "2.json is damaged" in said(sink)


def test_beginning_anew_moves_what_was_there_aside(sink: SinkStorage):
    shutil.rmtree(Path(sink.log_url))
    shutil.rmtree(sink.checkpoint.url)

    kept = reset_sink(sink, "now")

    assert find_problems(sink) == []
    assert Path(kept, "ledger", "out", "batches", "2.json").exists()


def test_a_backup_is_put_back_whole_and_not_over_newer_batches(sink: SinkStorage, tmp_path: Path):
    place = tmp_path / "copy"
    backup(sink.storage, place)
    shutil.rmtree(sink.checkpoint.url)

    from_backup([sink], sink.storage, place, behind=False)
    assert find_problems(sink) == []

    put(sink, 3)
    append_batch(sink, {"name": "out", "batchId": 3, "sources": []})
    with pytest.raises(BackupError, match="ends with batch 2, and 3 was written"):
        from_backup([sink], sink.storage, place, behind=False)


def test_a_damaged_backup_is_refused(sink: SinkStorage, tmp_path: Path):
    place = tmp_path / "copy"
    backup(sink.storage, place)
    (place / "checkpoints" / "out" / "offsets" / "1").write_text("v1")

    with pytest.raises(BackupError, match="missing or damaged"):
        from_backup([sink], sink.storage, place, behind=False)


def test_what_spark_has_purged_is_not_missing(sink: SinkStorage):
    for log in ("offsets", "commits"):
        Path(sink.checkpoint.url, log, "0").unlink()

    assert find_problems(sink) == []
