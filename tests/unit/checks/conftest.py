"""What the rules say about a text."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.checks import check
from penstock.load.document import to_pipeline
from penstock.load.yaml_file import parse_yaml


@pytest.fixture
def findings() -> Callable[[str], list[str]]:
    """The findings of a pipeline, as they are printed."""

    def found(text: str) -> list[str]:
        return [str(finding) for finding in check(to_pipeline(parse_yaml(text, "a.yaml")))]

    return found
