from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import LoadError
from penstock.load import load
from penstock.model import Restart

FILE = "name: p\nsources: {{ticks: {{rate: {{}}}}}}\nsinks: {{out: {{from: ticks, console: {{}}}}}}\n{more}\n"


def test_the_policy_is_in_the_file_and_has_good_defaults(tmp_path: Path):
    file = tmp_path / "p.yaml"
    file.write_text(FILE.format(more=""))
    assert load(file).restart == Restart()

    file.write_text(FILE.format(more="restart: {limit: 3, within: 1 hour, backoff: 500 milliseconds}"))

    assert load(file).restart == Restart(limit=3, within_seconds=3600, backoff_seconds=0.5)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("restart: {limt: 3}", "p.yaml:4:11: 'restart': unknown key 'limt'; did you mean 'limit'?"),
        ("restart: {within: soon}", "'soon' is not a duration"),
        ("restart: never", "p.yaml:4:1: 'restart' is 'never', expected a mapping"),
    ],
)
def test_a_wrong_policy_is_named_with_its_line(tmp_path: Path, more: str, says: str):
    (tmp_path / "p.yaml").write_text(FILE.format(more=more))

    with pytest.raises(LoadError) as caught:
        load(tmp_path / "p.yaml")

    assert says in str(caught.value)


def test_a_pipeline_in_python_says_the_same():
    from penstock import Pipeline, console, rate

    pipeline = Pipeline("p", restart={"limit": 3, "most": "5 seconds"})
    pipeline.source("ticks", rate())
    pipeline.sink("out", "ticks", console())

    assert pipeline.freeze().restart == Restart(limit=3, most_seconds=5)
