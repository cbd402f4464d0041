"""Which file is meant, and a whole file becoming a pipeline."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from penstock.errors import LoadError
from penstock.load import load
from penstock.model import Decode, Location, Trigger, Watermark

TRADES = """\
name: trades

sources:
  trades:
    kafka: {servers: "${KAFKA_SERVERS:-embedded}", topics: [trades], start: earliest}
    json: CreatedTime timestamp, Type string, Amount int, BrokerCode string
    watermark: {column: CreatedTime, delay: 30 minutes}
    bad_records: drop

steps:
  totals: |                             # a step is SQL
    SELECT window.start, sum(Amount) AS Total
    FROM Trades GROUP BY window(CreatedTime, '15 minutes')
  scored: {python: "model:score", reads: [trades]}

sinks:
  board:
    from: totals
    console:
    mode: update
    trigger: 1 minute
  archive:
    from: scored
    files: {path: lake/trades, partition_by: [BrokerCode]}

spark: {master: "local[2]", spark.sql.adaptive.enabled: false}

tests:
  - name: a window sums
    given: {trades: []}
"""
SMALL = "sources: {a: {rate: }}\nsinks: {b: {from: a, console: }}\n"


def test_a_file_becomes_a_frozen_pipeline(folder):
    Path("trades.yaml").write_text(TRADES)

    pipeline = load("trades.yaml", {})

    (source,) = pipeline.sources
    assert source.connector.servers == "embedded"
    assert source.connector.topics == ("trades",)
    assert source.value == Decode("json", "CreatedTime timestamp, Type string, Amount int, BrokerCode string")
    assert source.watermark == Watermark("CreatedTime", "30 minutes")
    assert source.bad_records == "drop"
    assert [(step.name, step.what.kind, step.reads) for step in pipeline.steps] == [
        ("totals", "sql", ("trades",)),
        ("scored", "python", ("trades",)),
    ]
    board, archive = pipeline.sinks
    assert (board.reads, board.mode, board.trigger) == ("totals", "update", Trigger("interval", "1 minute"))
    assert (archive.mode, archive.trigger, archive.targets[0].connector.path) == ("append", Trigger(), "lake/trades")
    assert pipeline.spark == {"master": "local[2]", "spark.sql.adaptive.enabled": "false"}
    assert pipeline.tests == ({"name": "a window sums", "given": {"trades": []}},)
    assert (pipeline.name, pipeline.folder) == ("trades", ".")


@pytest.mark.parametrize(
    ("written", "most"), [("", "1 hour"), (", max_ahead: 2 days", "2 days"), (", max_ahead: none", "")]
)
def test_how_far_ahead_of_the_clock_a_row_may_be(folder, written, most):
    Path("trades.yaml").write_text(TRADES.replace("delay: 30 minutes", f"delay: 30 minutes{written}"))

    (source,) = load("trades.yaml", {}).sources

    assert source.watermark == Watermark("CreatedTime", "30 minutes", most)


def test_every_node_knows_its_line_and_sql_the_line_of_its_text(folder):
    Path("trades.yaml").write_text(TRADES)

    pipeline = load("trades.yaml", {})

    totals = pipeline.steps[0]
    assert pipeline.sources[0].at == Location("trades.yaml", 4, 3)
    assert totals.at == Location("trades.yaml", 11, 3)
    assert totals.locate(0) == Location("trades.yaml", 12, 5)
    assert pipeline.where(pipeline.sinks[0], "mode") == Location("trades.yaml", 20, 5)
    assert pipeline.where(pipeline.sinks[1], "mode") == pipeline.sinks[1].at


def test_a_folder_means_the_file_with_its_name(folder):
    Path("trades").mkdir()
    for name in ("trades.yaml", "other.yaml", "trades_test.txt"):
        Path("trades", name).write_text(SMALL)

    assert load("trades").at.file == "trades/trades.yaml"


def test_a_folder_means_its_only_yaml_that_is_no_test(folder):
    Path("clicks").mkdir()
    Path("clicks/main.yml").write_text(SMALL)
    Path("clicks/main_test.yaml").write_text("tests: []")

    assert load("clicks").name == "main"


def test_a_folder_with_several_files_asks_which(folder):
    for name in ("a.yaml", "b.yml"):
        Path(name).write_text(SMALL)

    with pytest.raises(LoadError) as error:
        load(".")

    assert str(error.value) == ".:1:1: the folder has 2 pipelines, a.yaml and b.yml; give one of them"


def test_a_folder_without_yaml_says_what_it_has(folder):
    Path("notes.txt").write_text("")

    with pytest.raises(LoadError) as error:
        load(".")

    says = "the folder has no YAML file with 'sources' or 'sinks'; it has notes.txt"
    assert str(error.value) == f".:1:1: {says}; give a .yaml or .py file"


@pytest.mark.parametrize(
    "text",
    [
        "apiVersion: v1\nkind: ConfigMap\ndata:\n  trades.yaml: |\n    sources: {}\n---\napiVersion: v1\nkind: Pod\n",
        "apiVersion: example.com/v1\nkind: Feed\nsources: []\n",
        "services:\n  kafka: {image: kafka}\nvolumes: {}\n",
        "steps:\n  - script: make\n",
        "",
    ],
    ids=["manifests", "a manifest with sources", "compose", "a build", "empty"],
)
def test_yaml_of_other_programs_is_no_pipeline_of_the_folder(folder, text):
    Path("flow.yaml").write_text(SMALL)
    Path("other.yaml").write_text(text)

    assert load(".").name == "flow"


def test_a_pipeline_that_is_no_yaml_yet_is_still_the_one_that_is_meant(folder):
    Path("flow.yaml").write_text("sources:\n  a: {rate: {}\nsinks: {}\n")

    with pytest.raises(LoadError) as error:
        load(".")

    assert str(error.value).startswith("flow.yaml:")


def test_a_missing_file_offers_the_nearest(folder):
    Path("trades.yaml").write_text(SMALL)

    with pytest.raises(LoadError) as error:
        load("trads.yaml")

    assert str(error.value) == "trads.yaml:1:1: no such file; did you mean 'trades.yaml'?"


def test_another_kind_of_file_is_refused(folder):
    Path("trades.json").write_text("{}")

    with pytest.raises(LoadError) as error:
        load("trades.json")

    assert str(error.value) == "trades.json:1:1: a .json file is not a pipeline; give a .yaml, .yml or .py file"


def test_tests_beside_the_file_are_added_with_their_own_places(folder):
    Path("a.yaml").write_text(SMALL + "tests:\n  - name: one\n")
    Path("a_test.yaml").write_text("tests:\n  - name: two\n")

    one, two = load("a.yaml").tests

    assert (one["name"], str(one.at)) == ("one", "a.yaml:4:5")
    assert (two["name"], str(two.at)) == ("two", "a_test.yaml:2:5")


def test_loading_and_checking_import_no_spark(folder):
    Path("trades.yaml").write_text(TRADES)
    code = (
        "import sys; from penstock.load import load; from penstock.checks import check; check(load('trades.yaml'));"
        "print(sorted({'pyspark', 'pandas', 'py4j', 'confluent_kafka'} & set(sys.modules)))"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONPATH": _source()})

    assert (done.stdout, done.stderr) == ("[]\n", "")


def _source() -> str:
    import penstock.load

    return str(Path(penstock.load.__file__).parents[2])
