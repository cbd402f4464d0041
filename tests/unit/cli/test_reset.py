"""penstock reset: asks, says what follows, and keeps the old checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock.cli.reset import command
from penstock.errors import CallError
from penstock.load import load
from penstock.storage.layout import Storage

TEXT = "name: p\nsources: {ticks: {rate: {}}}\nsinks:\n  out: {from: ticks, files: {path: lake}}\n"


@pytest.fixture
def storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Storage:
    """A storage that a pipeline has claimed, and output with Spark's log."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.yaml").write_text(TEXT)
    made = Storage.of(load("p.yaml"))
    made.claim(load("p.yaml"))
    (Path(made.checkpoint("out")) / "offsets").mkdir(parents=True)
    (tmp_path / "lake" / "_spark_metadata").mkdir(parents=True)
    (tmp_path / "lake" / "_spark_metadata" / "0").write_text("v1")
    return made


def test_it_says_what_follows_and_keeps_checkpoint_and_output(storage: Storage, tmp_path: Path):
    done = CliRunner().invoke(command, ["p", "--yes"])

    assert done.exit_code == 0, done.output
    assert "target 'files' (files) starts empty: its old output is moved aside" in done.output
    assert not Path(storage.checkpoint("out")).exists()
    (place,) = Path(storage.url, "before").iterdir()
    assert (place / "checkpoints" / "out" / "offsets").is_dir()
    assert [path.name for path in tmp_path.glob("lake*")] == [f"lake.before-{place.name}"]


def test_nothing_changes_without_consent(storage: Storage):
    done = CliRunner().invoke(command, ["p"], input="n\n")

    assert done.exit_code == 1
    assert Path(storage.checkpoint("out")).exists()


def test_a_damaged_manifest_is_a_sentence(storage: Storage):
    Path(storage.manifest).write_text("garbage")

    done = CliRunner().invoke(command, ["p", "--yes"])

    assert isinstance(done.exception, CallError)
    assert "give the file instead of the name" in str(done.exception)
