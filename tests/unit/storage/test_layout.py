"""Storage that others can write to is not used."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.model import Location
from penstock.storage.layout import Storage, StorageError

AT = Location("p.yaml", 2)


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    """The storage of a pipeline that has run."""
    for folder in ("storage", "storage/p", "storage/p/checkpoints", "storage/p/checkpoints/out"):
        (tmp_path / folder).mkdir(mode=0o755)
    return tmp_path / "storage"


@pytest.mark.parametrize("path", [".", "p", "p/checkpoints", "p/checkpoints/out"])
@pytest.mark.parametrize(("mode", "who"), [(0o777, "everyone can"), (0o1777, "everyone can"), (0o770, "its group can")])
def test_a_storage_that_others_can_write_to_is_refused(storage: Path, path: str, mode: int, who: str):
    Storage(f"{storage}/p").refuse_if_shared(AT)
    shared = storage / path
    shared.chmod(mode)

    with pytest.raises(StorageError) as refused:
        Storage(f"{storage}/p").refuse_if_shared(AT)

    assert str(refused.value) == (
        f"p.yaml:2:1: the storage {shared} can be changed by other users: {who} (mode {mode:03o}), "
        f"and a checkpoint decides what is read and which classes are loaded; "
        f"run chmod go-w {shared}, or set 'storage' to a folder of your own"
    )


def test_a_storage_that_is_not_there_yet_or_elsewhere_is_not_judged(tmp_path: Path):
    Storage(f"{tmp_path}/none/p").refuse_if_shared(AT)
    Storage("s3://bucket/storage/p").refuse_if_shared(AT)
