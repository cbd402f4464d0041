from __future__ import annotations

from pathlib import Path

import pytest

from penstock.checks import check
from penstock.load import load

CASES = {
    "files: {path: in}\n    key: string": "files records have no key; remove 'key'",
    "kafka: {servers: a:1, topics: [t]}\n    json: key int\n    key: string": "has a field 'key' in its value",
    "kafka: {servers: a:1, topics: [t]}\n    json: _record int\n    metadata: true": "already has a field '_record'",
}


@pytest.mark.parametrize("source", CASES)
def test_a_key_that_cannot_be_there_is_found(source: str, tmp_path: Path):
    file = tmp_path / "p.yaml"
    file.write_text(f"sources:\n  rows:\n    {source}\nsinks: {{out: {{from: rows, memory: {{}}}}}}\n")

    (found,) = [finding for finding in check(load(file)) if finding.severity == "error"]

    assert CASES[source] in str(found)
