"""`penstock check` and Spark agree on generated pipelines; `python -m tests.agreement.compare` asks about more."""

from __future__ import annotations

from pathlib import Path

from tests.agreement.compare import compare, summarize


def test_check_and_spark_agree_on_four_hundred_pipelines(spark, tmp_path: Path):
    done = []
    for number in range(400):
        folder = tmp_path / str(number)
        folder.mkdir()
        done.append(compare(spark, f"11-{number}", folder))

    differing = [each for each in done if each.outcome in ("not loaded", "false accept", "false alarm")]
    assert not differing, "\n".join(summarize(differing))
    assert 100 < sum(not each.spark for each in done) < 300, "too few are accepted, or refused"
