"""`penstock check` and running queries agree; `python -m tests.agreement.running` runs more."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.agreement.compare import ask_check
from tests.agreement.running import Inputs, choose, compare_run, features, generate_many, run_pipeline, summarize_runs

from penstock.checks import check
from penstock.connector import MODES
from penstock.load import load
from penstock.model import errors

#: Of larger runs: queries that run in each mode, one that a checker refuses, and what only a running query shows.
SEEDS = {
    "5001-1352": "two event times",
    "5000-135": "a running step joined with itself",
    "5000-236": "a second watermark",
    "5001-223": "dedupe, append",
    "5001-72": "groups, update, exactly-once",
    "5001-84": "continuous",
    "5001-40": "a join without an equality",
}
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


def test_check_and_running_queries_agree_on_seven_pipelines(spark, inputs: Inputs, tmp_path: Path):
    done = []
    for seed in SEEDS:
        folder = tmp_path / seed
        folder.mkdir()
        done.append(compare_run(spark, ask_check(seed, folder)[0], inputs, folder))

    differing = [each for each in done if each.outcome in ("false accept", "false alarm")]
    assert not differing, "\n".join(summarize_runs(differing))
    assert sum(not each.spark for each in done) == 4


def test_the_chosen_pipelines_have_every_trigger_and_mode_and_both_verdicts(tmp_path: Path):
    chosen = choose(generate_many(150, "11", tmp_path), 60)

    found = {name for each in chosen for name in features(each)}
    assert len(chosen) == len({each.seed for each in chosen}) == 60
    assert {f"{verdict} mode:{mode}" for verdict in ("accepted", "refused") for mode in MODES} <= found
    assert {"accepted trigger:continuous 1 second", "accepted trigger:real-time 5 seconds"} <= found


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
