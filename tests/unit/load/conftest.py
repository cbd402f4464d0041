"""A folder to write pipelines into, and what loading says about them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.errors import LoadError
from penstock.load import load


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """An empty folder that is the current one, so that messages have short paths."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def complaints(folder) -> Callable[..., list[str]]:
    """What is wrong with a text, line by line; nothing when it loads."""

    def found(text: str, variables: dict[str, str] | None = None) -> list[str]:
        (folder / "clicks.yaml").write_text(text, encoding="utf-8")
        try:
            load("clicks.yaml", variables)
        except LoadError as error:
            return str(error).splitlines()
        return []

    return found
