"""`penstock check` and running queries agree; `python -m tests.agreement.running` runs more."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.agreement.compare import ask_check
from tests.agreement.running import Inputs, choose, compare_run, generate_many, run_pipeline, summarize_runs

from penstock.checks import check
from penstock.load import load
from penstock.model import errors

#: Of the seeds of a larger run: each accepted trigger and mode, and each rule that only a running query shows.
SEEDS = ("5000-34", "5000-135", "5000-236")
_REAL_TIME = """sources:
  orders:
    kafka: {{servers: "nowhere.invalid:9092", topics: [orders]}}
    json: id bigint, at timestamp
  names:
    files: {{path: in/names, format: json, schema: "id bigint, name string"}}
    static: true
steps:
  named: SELECT o.id, n.name FROM orders AS o LEFT JOIN names AS n ON {on}
sinks:
  out: {{from: named, console: {{}}, mode: update, trigger: real-time 5 seconds}}
"""


@pytest.fixture(scope="module")
def inputs(broker: str, tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    """The rows of all sources."""
    return Inputs.write(tmp_path_factory.mktemp("inputs"), broker)


def test_check_and_running_queries_agree_on_ten_pipelines(spark, inputs: Inputs, tmp_path: Path):
    known = [ask_check(seed, tmp_path)[0] for seed in SEEDS]
    asked = [*known, *choose(generate_many(60, "11", tmp_path), 7)]

    done = []
    for number, each in enumerate(asked):
        folder = tmp_path / str(number)
        folder.mkdir()
        done.append(compare_run(spark, each, inputs, folder))

    differing = [each for each in done if each.outcome in ("false accept", "false alarm")]
    assert not differing, "\n".join(summarize_runs(differing))
    assert {bool(each.spark) for each in done} == {True, False}


@pytest.mark.parametrize(("on", "error"), [("o.id = n.id", ""), ("o.id > n.id", "BroadcastNestedLoopJoinExec")])
def test_a_real_time_query_joins_a_static_table_by_an_equality(spark, inputs: Inputs, tmp_path: Path, on, error):
    file = tmp_path / "pipeline.yaml"
    file.write_text(_REAL_TIME.format(on=on))
    pipeline = load(file)

    refused = [finding.rule for finding in errors(check(pipeline))]
    says = run_pipeline(spark, pipeline, inputs, tmp_path)

    assert refused == (["trigger-fits-steps"] if error else [])
    assert error in says
    assert bool(says) == bool(error)
