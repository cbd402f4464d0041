"""Every difference between a checkpoint and its records that Spark would not notice."""

from __future__ import annotations

import json
import shutil
import struct
import zipfile
from pathlib import Path

import pytest

from penstock.driver.recorder import append_batch, journal_missing_commits
from penstock.storage.layout import Storage
from penstock.storage.ledger import Ledger, write_intent
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
    part = log.parent / f"part-{number}"
    part.write_text("rows")
    (log / str(number)).write_text(f'v1\n{{"path":"file://{part}","size":4}}')


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


@pytest.mark.parametrize("offsets", ["", None], ids=["damaged-offsets", "intact-offsets"])
def test_a_damaged_intent_record_is_named_and_moved_aside_if_spark_s_offsets_are_intact(sink: SinkStorage, offsets):
    put(sink, 3)
    Path(sink.checkpoint.url, "commits", "3").unlink()
    if offsets is not None:
        Path(sink.checkpoint.url, "offsets", "3").write_text(offsets)
    Path(sink.storage.intent(sink.name)).write_text("{")

    assert "begun is damaged" in said(sink)
    from_journal(sink)
    assert ("begun is damaged" in said(sink)) is (offsets is not None)


def test_a_ledger_ahead_of_what_has_begun_is_named_and_set_back(sink: SinkStorage):
    put(sink, 3)
    Path(sink.checkpoint.url, "commits", "3").unlink()
    ledger = Ledger(sink.storage, sink.name)
    ledger.write("kafka", "a-query", 2)
    write_intent(sink.storage, sink.name, 2)
    ledger.write("kafka", "a-query", 3)

    assert "the ledger has batch 3 of target 'kafka', and the last that began is 2" in said(sink)
    from_journal(sink)
    assert find_problems(sink) == []
    assert not Ledger(sink.storage, sink.name).has("kafka", "a-query", 3)


def test_a_record_that_was_copied_over_another_is_damaged(sink: SinkStorage):
    ledger = Ledger(sink.storage, sink.name)
    ledger.write("kafka", "a-query", 2)
    ledger.write("lake", "a-query", 1)
    shutil.copy(sink.storage.target("out", "kafka"), sink.storage.target("out", "lake"))

    assert "lake.json is damaged: its checksum differs" in said(sink)
    from_journal(sink)
    assert find_problems(sink) == []


def test_changed_offsets_of_a_batch_in_progress_are_named_and_restored(sink: SinkStorage):
    put(sink, 3)
    Path(sink.checkpoint.url, "commits", "3").unlink()
    write_intent(sink.storage, sink.name, 3)
    offsets = Path(sink.checkpoint.url, "offsets", "3")
    offsets.write_text(offsets.read_text().replace("300", "200"))

    assert "offsets/3 has changed since batch 3 began" in said(sink)
    assert from_journal(sink) == ["offsets/3"]
    assert find_problems(sink) == []


def test_a_wrong_checksum_of_hadoop_is_named_and_removed(sink: SinkStorage):
    sums = Path(sink.checkpoint.url, "offsets", ".2.crc")
    sums.write_bytes(b"crc\0" + struct.pack(">iI", 512, 1))

    assert "offsets/2 differs from Hadoop's checksum of it" in said(sink)
    from_journal(sink)
    assert find_problems(sink) == []
    assert not sums.exists()


def test_output_that_a_power_cut_left_empty_is_undone_and_read_again(sink: SinkStorage):
    put(sink, 3)
    (Path(sink.log_url).parent / "part-3").write_text("")

    assert "part-3 has 0 bytes" in said(sink)
    assert "batches after 2 (undone" in from_journal(sink)[0]
    assert find_problems(sink) == []
    assert sink.log_numbers() == sink.checkpoint.numbers("commits") == [0, 1, 2]
    assert sink.checkpoint.numbers("offsets") == [0, 1, 2, 3]


def test_a_damaged_log_of_the_output_is_restored(sink: SinkStorage):
    Path(sink.log_url, "1").write_text("v1")

    from_journal(sink)
    assert find_problems(sink) == []


def state(sink: SinkStorage, version: int, *names: str) -> list[Path]:
    """State files of a version, with Hadoop's checksums."""
    found = []
    for name in names:
        file = Path(sink.checkpoint.url, "state", "0", "0", f"{version}.{name}")
        file.parent.mkdir(parents=True, exist_ok=True)
        if name == "zip":
            with zipfile.ZipFile(file, "w") as archive:
                archive.writestr("metadata", f"version {version}")
        else:
            file.write_bytes(f"changes of {version}".encode())
        found.append(file)
    return found


def test_a_damaged_snapshot_is_moved_aside_when_the_changes_are_intact(sink: SinkStorage):
    state(sink, 1, "changelog")
    (_, snapshot) = state(sink, 2, "changelog", "zip")
    state(sink, 3, "changelog")
    snapshot.write_bytes(b"no archive")

    assert find_problems(sink) == []
    assert next(str(each) for each in find_problems(sink, state=True)).startswith(f"{snapshot} is damaged")
    assert "the state is loaded without it" in from_journal(sink)[0]
    assert find_problems(sink, state=True) == []


def test_damaged_changes_that_the_state_needs_stay_named(sink: SinkStorage):
    put(sink, 3)
    state(sink, 1, "changelog")
    state(sink, 2, "changelog")
    state(sink, 3, "changelog")
    (changes,) = state(sink, 4, "changelog")
    append_batch(sink, {"name": "out", "batchId": 3, "sources": []})
    changes.write_bytes(b"")

    assert f"{changes} has changed since it was written" in said(sink)
    assert from_journal(sink) == []
    assert "penstock reset" in said(sink)


def test_a_backup_of_a_running_pipeline_ends_with_its_last_journaled_batch(sink: SinkStorage, tmp_path: Path):
    put(sink, 3)
    Ledger(sink.storage, sink.name).write("kafka", "a-query", 3)
    for version in range(1, 5):
        state(sink, version, "changelog")

    backup(sink.storage, tmp_path / "copy", running=True)

    kept = SinkStorage("out", Storage(str(tmp_path / "copy")))
    assert kept.checkpoint.numbers("offsets") == kept.checkpoint.numbers("commits") == [0, 1, 2]
    assert list(kept.checkpoint.state_files()) == [f"state/0/0/{version}.changelog" for version in (1, 2, 3)]
    assert kept.targets()["kafka"].batch == 2
    assert find_problems(kept) == []


def test_a_checkpoint_restored_behind_its_targets_is_another_one_to_them(sink: SinkStorage, tmp_path: Path):
    place = tmp_path / "copy"
    ledger = Ledger(sink.storage, sink.name)
    ledger.write("kafka", "a-query", 2)
    backup(sink.storage, place)
    put(sink, 3)
    append_batch(sink, {"name": "out", "batchId": 3, "sources": []})
    ledger.write("kafka", "a-query", 3)

    for _ in range(2):
        from_backup([sink], sink.storage, place, behind=True)

        assert sink.checkpoint.query != "a-query"
        assert sink.checkpoint.numbers("commits") == sink.log_numbers() == [0, 1, 2]
        assert not Ledger(sink.storage, sink.name).has("kafka", sink.checkpoint.query, 0)
        assert find_problems(sink) == []
        put(sink, 3)
        Path(sink.checkpoint.url, "metadata").write_text('{"id":"a-query"}')
        append_batch(sink, {"name": "out", "batchId": 3, "sources": []})


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


@pytest.mark.parametrize("number", [1, 2])
def test_a_damaged_record_is_named_moved_aside_and_journaled_again(sink: SinkStorage, number: int):
    file = Path(sink.journal.url, f"{number}.json")
    file.write_text(file.read_text().replace("a-query", "b-query"))

    assert f"{number}.json is damaged: its checksum differs" in said(sink)
    from_journal(sink)
    assert find_problems(sink) == []
    assert journal_missing_commits(sink) == 1
    assert sink.journal.numbers == [0, 1, 2]


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


def test_a_compacted_log_with_empty_output_is_undone_and_keeps_older_batches(sink: SinkStorage):
    put(sink, 3)
    log = Path(sink.log_url)
    lines = [(log / str(number)).read_text().split("\n")[1] for number in range(4)]
    (log / "3").unlink()
    (log / "3.compact").write_text("\n".join(["v1", *lines]))
    (log.parent / "part-3").write_text("")

    assert "part-3 has 0 bytes" in said(sink)
    from_journal(sink)
    assert find_problems(sink) == []
    assert sink.log_numbers() == [0, 1, 2]
    assert {file.name for file in log.parent.glob("part-*")} == {"part-0", "part-1", "part-2"}
