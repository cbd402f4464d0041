"""What a target has when `write` returns survives a power cut: judged on a copy of the disk, taken at that moment."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet
import pytest
from deltalake import DeltaTable

from penstock.connectors.delta import DeltaSink
from penstock.connectors.files import FileSink
from penstock.connectors.jdbc import JdbcSink
from penstock.spark.delta import DeltaTable as SparkDeltaTable
from penstock.testing.connectors import batch

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting a disk needs root")


@dataclass(frozen=True)
class Disk:
    """An ext4 file system in a file."""

    image: Path
    folder: Path

    @contextmanager
    def cut(self) -> Iterator[Path]:
        """The file system as it would be after a power cut now."""
        copy, place = self.image.with_suffix(".cut"), self.folder.with_name("after")
        subprocess.run(["cp", "--sparse=always", self.image, copy], check=True)
        with mounted(copy, place):
            yield place


@contextmanager
def mounted(image: Path, place: Path) -> Iterator[None]:
    place.mkdir()
    subprocess.run(["mount", "-o", "loop,commit=300", image, place], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    image = tmp_path / "disk"
    with image.open("wb") as file:
        file.truncate(200 * 2**20)
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    with mounted(image, tmp_path / "before"):
        yield Disk(image, tmp_path / "before")


def numbers(spark, *given: int):
    return spark.createDataFrame([(number, "ab"[number % 2]) for number in given], "id int, side string")


def parquet_ids(folder: Path) -> list[int]:
    """As a reader sees them that does not know Spark."""
    files = [file for file in folder.rglob("*.parquet") if "_writing" not in file.parts]
    return sorted(number for file in files for number in pyarrow.parquet.ParquetFile(file).read()["id"].to_pylist())


def delta_ids(folder: Path) -> list[int]:
    return sorted(DeltaTable(folder).to_pyarrow_table()["id"].to_pylist())


@needs_root
def test_what_is_not_synced_is_lost(disk):
    """The disk tells the difference."""
    (disk.folder / "lost").write_bytes(b"rows")

    with disk.cut() as after:
        assert not (after / "lost").exists() or not (after / "lost").read_bytes()


@needs_root
@pytest.mark.parametrize("partition_by", [(), ("side",)])
def test_batch_folders_survive_a_power_cut(spark, disk, partition_by):
    sink = FileSink(path=str(disk.folder / "new" / "out"), partition_by=partition_by)
    writer = sink.open(spark, numbers(spark, 0).schema, "append")

    writer.write(numbers(spark, 0, 1, 2), batch(0))
    writer.write(numbers(spark, 3, 4), batch(1))

    with disk.cut() as after:
        assert parquet_ids(after / "new" / "out") == [0, 1, 2, 3, 4]
        assert spark.read.parquet(str(after / "new" / "out")).count() == 5


@needs_root
def test_a_batch_folder_that_a_killed_run_left_is_synced_by_the_replay(spark, disk):
    sink = FileSink(path=str(disk.folder / "out"))
    writer = sink.open(spark, numbers(spark, 0).schema, "append")
    writer.write(numbers(spark, 0), batch(0))
    shutil.copytree(disk.folder / "out" / "batch=checkpoi-000000000", disk.folder / "out" / "batch=checkpoi-000000001")

    writer.write(numbers(spark, 1), batch(1))

    with disk.cut() as after:
        assert parquet_ids(after / "out") == [0, 0]


@needs_root
@pytest.mark.parametrize(
    ("mode", "options", "expected"),
    [
        ("append", {"partition_by": ("side",)}, [0, 1, 2, 2, 3]),
        ("append", {"compact": {"every": "2 batches"}}, [0, 1, 2, 2, 3]),
        ("update", {"key": ("id",)}, [0, 1, 2, 3]),
        ("complete", {}, [2, 3]),
    ],
)
def test_delta_commits_survive_a_power_cut(spark, disk, mode, options, expected):
    sink = DeltaSink(path=str(disk.folder / "new" / "table"), **options)
    writer = sink.open(spark, numbers(spark, 0).schema, mode)

    writer.write(numbers(spark, 0, 1, 2), batch(0, mode=mode))
    writer.write(numbers(spark, 2, 3), batch(1, mode=mode))

    with disk.cut() as after:
        assert delta_ids(after / "new" / "table") == expected
        found = spark.read.format("delta").load(str(after / "new" / "table")).collect()
        assert sorted(row.id for row in found) == expected


@needs_root
def test_a_checkpoint_and_deletion_vectors_survive_a_power_cut(spark, disk):
    path = disk.folder / "table"
    properties = "'delta.enableDeletionVectors' = true, 'delta.checkpointInterval' = 2"
    spark.sql(f"CREATE TABLE delta.`{path}` (id int, side string) USING delta TBLPROPERTIES ({properties})")
    writer = DeltaSink(path=str(path), key=("id",)).open(spark, numbers(spark, 0).schema, "update")

    writer.write(numbers(spark, *range(100)), batch(0, mode="update"))
    writer.write(spark.createDataFrame([(7, "new")], "id int, side string"), batch(1, mode="update"))

    with disk.cut() as after:
        assert list((after / "table").glob("deletion_vector_*.bin"))
        assert list((after / "table" / "_delta_log").glob("*2.checkpoint.parquet"))
        found = {row.id: row.side for row in spark.read.format("delta").load(str(after / "table")).collect()}
        assert len(found) == 100
        assert found[7] == "new"


@needs_root
def test_a_commit_that_a_killed_run_left_is_synced_by_the_replay(spark, disk):
    sink = DeltaSink(path=str(disk.folder / "table"))
    writer = sink.open(spark, numbers(spark, 0).schema, "append")
    transaction = {"txnAppId": "suite.sink.target:checkpoint", "txnVersion": "0"}
    numbers(spark, 0).write.format("delta").mode("append").options(**transaction).save(sink.path)

    writer.write(numbers(spark, 1), batch(0))

    with disk.cut() as after:
        assert delta_ids(after / "table") == [0]


@needs_root
def test_a_transaction_of_sqlite_survives_a_power_cut(spark, disk):
    sink = JdbcSink(url=f"jdbc:sqlite:{disk.folder / 'shop.db'}", table="numbers", create=True)
    writer = sink.open(spark, numbers(spark, 0).schema, "append")

    writer.write(numbers(spark, 0, 1), batch(0))

    with disk.cut() as after:
        connection = sqlite3.connect(after / "shop.db")
        found = connection.execute("SELECT count(*), max(batch) FROM numbers, penstock_batches").fetchall()
        connection.close()
        assert found == [(2, 0)]


def test_the_last_batch_of_batch_folders_is_the_last_that_is_complete(spark, tmp_path):
    sink = FileSink(path=str(tmp_path / "out"), partition_by=("side",))
    writer = sink.open(spark, numbers(spark, 0).schema, "append")
    for number in range(3):
        writer.write(numbers(spark, number), batch(number))
    writer.write(numbers(spark), batch(3))
    seen = [writer.last_batch(batch(3)), writer.last_batch(batch(3, query="another"))]
    shutil.rmtree(tmp_path / "out" / "batch=checkpoi-000000003")
    seen.append(writer.last_batch(batch(3)))
    (lost,) = (tmp_path / "out" / "batch=checkpoi-000000002").rglob("part-*.parquet")
    lost.write_bytes(b"")
    seen.append(writer.last_batch(batch(3)))

    assert seen == [3, -1, 2, 1]


def test_a_batch_folder_with_an_empty_file_is_written_again(spark, tmp_path):
    sink = FileSink(path=str(tmp_path / "out"))
    writer = sink.open(spark, numbers(spark, 0).schema, "append")
    writer.write(numbers(spark, 0), batch(0))
    for file in (tmp_path / "out").rglob("part-*.parquet"):
        file.write_bytes(b"")

    writer.write(numbers(spark, 0), batch(0))

    assert parquet_ids(tmp_path / "out") == [0]
    assert writer.last_batch(batch(0)) == 0


@pytest.mark.parametrize(("mode", "key"), [("append", ()), ("update", ("id",)), ("complete", ())])
def test_the_last_batch_of_a_delta_table_is_its_transaction_version(spark, tmp_path, mode, key):
    sink = DeltaSink(path=str(tmp_path / "table"), key=key)
    writer = sink.open(spark, numbers(spark, 0).schema, mode)
    seen = [writer.last_batch(batch(0))]
    for number in range(2):
        writer.write(numbers(spark, number), batch(number, mode=mode))
    again = sink.open(spark, numbers(spark, 0).schema, mode)
    seen += [again.last_batch(batch(1)), again.last_batch(batch(1, query="another"))]

    assert seen == [-1, 1, -1]


def test_a_delta_table_whose_newest_file_is_cut_does_not_have_the_batch(spark, tmp_path):
    sink = DeltaSink(path=str(tmp_path / "table"))
    writer = sink.open(spark, numbers(spark, 0).schema, "append")
    for number in range(2):
        writer.write(numbers(spark, number), batch(number))
    newest = max((tmp_path / "table").glob("part-*.parquet"), key=lambda file: file.stat().st_mtime_ns)
    newest.write_bytes(b"")

    assert sink.open(spark, numbers(spark, 0).schema, "append").last_batch(batch(1)) == 0


def test_the_last_batch_of_a_database_is_in_its_table_of_batches(spark, tmp_path):
    sink = JdbcSink(url=f"jdbc:sqlite:{tmp_path / 'shop.db'}", table="numbers", create=True)
    writer = sink.open(spark, numbers(spark, 0).schema, "append")
    seen = [writer.last_batch(batch(0))]
    writer.write(numbers(spark, 0), batch(4))
    seen += [writer.last_batch(batch(4)), writer.last_batch(batch(4, query="another"))]

    assert seen == [-1, 4, -1]


def test_a_delta_writer_does_not_commit_what_another_process_has_committed_meanwhile(spark, tmp_path):
    """Both have the table open; the second takes over between two batches of the first."""
    sink = DeltaSink(path=str(tmp_path / "table"))
    first, second = (sink.open(spark, numbers(spark, 0).schema, "append") for _ in range(2))
    first.write(numbers(spark, 0), batch(0))
    second.write(numbers(spark, 1), batch(1))

    first.write(numbers(spark, 1), batch(1))
    second.write(numbers(spark, 2), batch(2))
    second.write(numbers(spark, 2), batch(2))

    assert delta_ids(tmp_path / "table") == [0, 1, 2]


def test_a_delta_writer_is_refused_when_another_process_commits_the_batch_at_the_same_time(spark, tmp_path):
    sink = DeltaSink(path=str(tmp_path / "table"))
    first, second = (sink.open(spark, numbers(spark, 0).schema, "append") for _ in range(2))
    first.write(numbers(spark, 0), batch(0))
    sync = SparkDeltaTable._sync_data

    def commit_of_the_other(table, actions):
        """Called between the files of a batch and its commit."""
        patched.setattr(SparkDeltaTable, "_sync_data", sync)
        second.write(numbers(spark, 1), batch(1))
        sync(table, actions)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(SparkDeltaTable, "_sync_data", commit_of_the_other)
        with pytest.raises(Exception, match="DELTA_CONCURRENT_TRANSACTION"):
            first.write(numbers(spark, 1), batch(1))
    first.write(numbers(spark, 1), batch(1))

    assert delta_ids(tmp_path / "table") == [0, 1]
