"""What Prometheus sees, judged by its own parser."""

from __future__ import annotations

import json
import re
from pathlib import Path

import yaml
from prometheus_client.parser import text_string_to_metric_families
from tests.unit.watch.reports import event, progress, write_log

from penstock.watch.board import Board
from penstock.watch.metrics import METRICS, prometheus
from penstock.watch.views import PipelineView, QueryView

ROOT = Path(__file__).parents[3]


def exposed(storage: Path) -> dict[str, list]:
    board = Board(str(storage))
    board.refresh()
    families = text_string_to_metric_families(prometheus(board.views()))
    return {sample.name: family.samples for family in families for sample in family.samples}


def test_every_metric_is_read_by_prometheus_own_parser(tmp_path: Path):
    behind = progress(end=250, latest=1250)
    write_log(tmp_path, "trades", [event("started", "09:59:00"), event("batch", "10:00:02", progress=behind)])

    found = exposed(tmp_path)

    assert set(found) == {metric.name for metric in METRICS}
    (sample,) = found["penstock_query_rows_behind"]
    assert (sample.labels, sample.value) == ({"pipeline": "trades", "sink": "board", "source": "trades"}, 1000)
    assert sum(sample.value for sample in found["penstock_query_phase_duration_seconds"]) == 2
    states = {sample.labels["state"]: sample.value for sample in found["penstock_pipeline_state"]}
    assert [state for state, value in states.items() if value] == ["running"]


def test_labels_are_those_that_are_documented_and_none_is_a_partition_or_a_reason(tmp_path: Path):
    write_log(tmp_path, "trades", [event("started", "09:59:00"), event("batch", "10:00:02", progress=progress())])

    labels = {name: {key for sample in samples for key in sample.labels} for name, samples in exposed(tmp_path).items()}

    assert labels == {metric.name: set(metric.labels) for metric in METRICS}
    assert set().union(*labels.values()) == {"pipeline", "sink", "source", "phase", "state"}


def test_a_label_cannot_break_out_of_its_quotes():
    odd = 'a"} 1\npenstock_pipeline_up{pipeline="b'
    text = prometheus([PipelineView("p", queries=(QueryView(odd, batch=1),))])

    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert [sample.labels["sink"] for sample in families["penstock_query_batch_id"].samples] == [odd]
    assert len(families["penstock_pipeline_up"].samples) == 1


def test_a_storage_without_pipelines_has_no_metrics(tmp_path: Path):
    assert exposed(tmp_path) == {}


def test_the_docs_name_only_metrics_that_exist():
    pages = "".join(page.read_text() for page in (ROOT / "docs").glob("**/*.md"))

    assert set(re.findall(r"`(penstock_(?:pipeline|query)_[a-z_]+)`", pages)) <= {metric.name for metric in METRICS}


def test_the_dashboard_and_the_alerts_ask_only_for_metrics_and_labels_that_exist():
    dashboard = (ROOT / "docs" / "monitoring" / "grafana-dashboard.json").read_text()
    alerts = (ROOT / "docs" / "monitoring" / "alerts.yaml").read_text()
    labels = {metric.name: set(metric.labels) for metric in METRICS}
    queries = [target["expr"] for panel in json.loads(dashboard)["panels"] for target in panel["targets"]]
    queries += [rule["expr"] for group in yaml.safe_load(alerts)["groups"] for rule in group["rules"]]

    assert len(queries) > 15
    for query in queries:
        found = re.findall(r"(penstock_\w+)(?:\{([^}]*)\})?", query)
        assert found, query
        for name, selected in found:
            assert name in labels, query
            assert set(re.findall(r"(\w+)\s*=", selected)) <= labels[name], query
    assert set(re.findall(r"penstock_\w+", dashboard + alerts)) <= set(labels)
