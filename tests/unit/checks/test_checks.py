"""All rules together."""

from __future__ import annotations

from penstock.checks import RULES, check
from penstock.load.document import Document, to_pipeline

GOOD = """\
sources:
  trades:
    kafka: {servers: embedded, topics: [trades]}
    json: at timestamp, Amount int
    watermark: {column: at, delay: 30 minutes}
steps:
  totals: SELECT window.start, sum(Amount) AS Total FROM trades GROUP BY window(at, '15 minutes')
sinks:
  board: {from: totals, console: , mode: update, trigger: 1 minute}
  archive: {from: totals, files: {path: lake/totals}}
"""


def test_a_good_pipeline_contradicts_no_rule(findings):
    assert findings(GOOD) == []


def test_findings_come_in_file_order(findings):
    text = GOOD.replace("from: totals, files", "from: nope, files").replace("Amount int", "Amount itn")

    assert findings(text) == [
        "a.yaml:4:5: source 'trades': 'json' cannot be read: 'itn' is not a Spark type; did you mean 'int'?",
        "a.yaml:10:13: sink 'archive' reads 'nope', which is neither a source nor a step; use totals or trades",
    ]


def test_every_rule_is_a_claim_with_one_sentence():
    for rule in RULES:
        assert (rule.__doc__ or "").endswith(".")
        assert "\n" not in (rule.__doc__ or "")


def test_a_pipeline_without_places_is_checked_too():
    nodes = {"sources": {"a": {"rate": None}}, "sinks": {"b": {"from": "nope", "console": None}}}

    found = check(to_pipeline(Document(nodes, "flow.py")))

    assert [finding.rule for finding in found] == ["names-exist", "everything-is-read"]
