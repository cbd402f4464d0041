"""The driver loads the file again: it must be the pipeline that its supervisor has checked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from penstock.driver.channel import StartOrder
from penstock.driver.driver import _load
from penstock.errors import CheckError, PenstockError, RunError
from penstock.model import errors, fingerprint
from penstock.pipeline import load_checked
from penstock.storage.layout import Storage
from penstock.supervise.protocol import RunOptions

TEXT = "name: p\nsources: {ticks: {rate: {}}}\nsinks:\n  out: {from: ticks, console: {}}\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "p.yaml"
    made.write_text(TEXT)
    return made


def order_for(file: Path, master: str | None = None) -> StartOrder:
    """The order that a supervisor gives after it has checked the file."""
    pipeline, _ = load_checked(file, master)
    return StartOrder(Storage.of(pipeline).lease, 1, 0, Storage.of(pipeline).url, fingerprint(pipeline))


def test_the_checked_pipeline_is_loaded(file: Path):
    pipeline = _load(RunOptions(str(file)), order_for(file))

    assert pipeline.name == "p"
    assert pipeline == load_checked(file)[0]


def test_a_changed_comment_is_the_same_pipeline(file: Path):
    order = order_for(file)
    file.write_text(f"# a comment\n{TEXT}")

    assert _load(RunOptions(str(file)), order).name == "p"


def test_a_changed_file_is_refused(file: Path):
    order = order_for(file)
    file.write_text(TEXT.replace("rate: {}", "rate: {rows_per_second: 7}"))

    with pytest.raises(RunError) as caught:
        _load(RunOptions(str(file)), order)

    assert str(caught.value) == (
        f"{file} has changed since the run began, and a restart must not mix the two; "
        "stop the pipeline and run it again"
    )


def test_another_storage_is_refused(file: Path):
    order = replace(order_for(file), storage="/elsewhere/p")

    with pytest.raises(RunError, match="has changed since the run began"):
        _load(RunOptions(str(file)), order)


def test_a_file_that_no_longer_passes_its_checks_is_refused_with_its_errors(file: Path):
    order = order_for(file)
    file.write_text(TEXT.replace("from: ticks", "from: tocks"))

    with pytest.raises(PenstockError, match="tocks") as caught:
        _load(RunOptions(str(file)), order)

    assert isinstance(caught.value, CheckError)
    assert not caught.value.retry


def test_the_master_of_the_command_line_takes_the_place_of_the_files(file: Path):
    file.write_text(TEXT + "spark: {master: 'local[8]', spark.sql.shuffle.partitions: 3}\n")

    pipeline, findings = load_checked(file, "local[1]")

    assert pipeline.spark["master"] == "local[1]"
    assert str(pipeline.spark["spark.sql.shuffle.partitions"]) == "3"
    assert errors(findings) == []
    assert load_checked(file)[0].spark["master"] == "local[8]"


def test_the_master_of_the_command_line_is_part_of_what_was_checked(file: Path):
    order = order_for(file, "local[1]")

    assert _load(RunOptions(str(file), master="local[1]"), order).spark["master"] == "local[1]"
    with pytest.raises(RunError, match="has changed"):
        _load(RunOptions(str(file)), order)
