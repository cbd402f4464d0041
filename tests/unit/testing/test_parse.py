from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from penstock.testing import discover

PIPELINE = """\
name: trades
sources:
  trades:
    kafka: {servers: nowhere:1, topics: [trades]}
    json: at timestamp, amount int
  ticks: {rate: {}}
steps:
  both: SELECT amount FROM trades UNION ALL SELECT value FROM ticks
sinks:
  board: {from: both, console: {}}
"""


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The tests of a text, and what is wrong with them."""
    monkeypatch.chdir(tmp_path)

    def suite(tests: str):
        Path("trades.yaml").write_text(PIPELINE)
        Path("trades_test.yaml").write_text(textwrap.dedent(tests))
        return discover(["."])[0]

    return suite


def findings(suite) -> list[str]:
    return [str(finding) for finding in suite.findings]


def test_a_test_becomes_a_case(suite):
    (case,) = suite("""\
        tests:
          - name: all of it
            given: {trades: [[{amount: 1}, "raw"], []], ticks: [[{value: 1}]]}
            expect: {board: [[{amount: 1}], []]}
            ordered: true
            bad_records: {trades: 1}
            late_rows: {board: 2}
            state_rows: {board: 3}
            error: oh
            restart: true
            crash: {batch: 0, at: after_write}
        """).cases

    assert (case.name, str(case.at)) == ("all of it", "trades_test.yaml:2:5")
    assert case.batches == ({"trades": ({"amount": 1}, "raw"), "ticks": ({"value": 1},)}, {"trades": ()})
    assert case.expect["board"].tables == (({"amount": 1},), ())
    assert (case.bad_records, case.late_rows, case.state_rows) == ({"trades": 1}, {"board": 2}, {"board": 3})
    assert (case.ordered, case.error, case.restarts) == (True, "oh", {1})
    assert case.crashes == {0: "after_write"}


def test_rows_without_batches_are_one_batch_of_given_and_all_of_expected(suite):
    (case,) = suite("tests: [{name: n, given: {ticks: [{value: 1}, {value: 2}]}, expect: {board: []}}]").cases

    assert len(case.batches) == 1
    assert (case.expect["board"].tables, case.expect["board"].per_batch) == (((),), False)


def test_a_crash_without_a_batch_is_in_every_batch(suite):
    text = "tests: [{name: n, given: {ticks: [[{value: 1}], [{value: 2}]]}, expect: {board: []}, crash: before_commit}]"

    (case,) = suite(text).cases

    assert case.crashes == {0: "before_commit", 1: "before_commit"}


def test_everything_wrong_is_said_at_once_with_its_line(suite):
    found = suite("""\
        tests:
          - given: {trades: []}
            expect: {board: []}
          - name: words
            gvien: {}
            given:
              traeds: [[{}]]
              trades:
                - - {amuont: 1}
                  - 5
              ticks: [["raw"]]
            expect: {boad: []}
            ordered: perhaps
            bad_records: {trade: 1}
            late_rows: {board: -1}
            state_rows: 3
            error: 5
            restart: [0]
            crash: {batch: 7, at: after_write, on: 1}
          - name: shapes
            given: {trades: {}, ticks: [[{}], {}]}
            expect: {board: [[{}], 5]}
            crash: soon
          - name: shapes
            given: {trades: [[{}]]}
            expect: {board: [[], []]}
          - name: nothing
            given: {trades: [[{}]]}
          - {name: rows, given: {trades: [[{}]]}, expect: {board: [1]}}
          - {name: none, expect: 5}
        """)

    assert found.cases == ()
    assert findings(found) == [
        "trades_test.yaml:2:5: test 1 has no name; describe in a sentence what it shows",
        "trades_test.yaml:5:5: test 'words' does not know 'gvien'; did you mean 'given'?",
        "trades_test.yaml:7:7: test 'words' gives rows to 'traeds', which is not a source; did you mean 'trades'?",
        "trades_test.yaml:9:14: test 'words': source 'trades' has no column 'amuont'; did you mean 'amount'?",
        "trades_test.yaml:10:13: test 'words': source 'trades': a row is 5, expected columns or raw text",
        "trades_test.yaml:11:16: test 'words': source 'ticks' takes no raw text, found 'raw'; write its columns",
        "trades_test.yaml:12:14: test 'words' expects rows of 'boad', which is not a sink; did you mean 'board'?",
        "trades_test.yaml:13:5: test 'words': 'ordered' is 'perhaps', expected true or false",
        "trades_test.yaml:14:19: test 'words': 'bad_records' names 'trade', which is not a source; "
        "did you mean 'trades'?",
        "trades_test.yaml:15:17: test 'words': 'late_rows' of 'board' is -1, expected 0 or more",
        "trades_test.yaml:16:5: test 'words': 'state_rows' is 3, expected a number by sink; "
        "write 'state_rows: {board: 1}'",
        "trades_test.yaml:17:5: test 'words': 'error' is 5, expected a part of the error's message",
        "trades_test.yaml:18:5: test 'words': 'restart' is [0], expected true or batches to restart before; "
        "1 batch is given",
        "trades_test.yaml:19:13: test 'words': the batch of 'crash' is 7; batches count from 0: use 0",
        "trades_test.yaml:19:40: test 'words': 'crash' does not know 'on'; use at or batch",
        "trades_test.yaml:21:13: test 'shapes': the rows given to 'trades' are a mapping, expected a list of batches; "
        "write [[...], [...]]",
        "trades_test.yaml:21:39: test 'shapes': the rows given to 'ticks' mix batches and rows; "
        "write a list per batch: [[...], [...]]",
        "trades_test.yaml:22:28: test 'shapes': the rows expected of 'board' mix batches and rows; "
        "write a list per batch: [[...], [...]]",
        "trades_test.yaml:23:5: test 'shapes': 'crash' is at 'soon', expected after_write or before_commit; "
        "write 'crash: {batch: 1, at: after_write}'",
        "trades_test.yaml:24:5: the test 'shapes' already exists on line 20; give each test a unique name",
        "trades_test.yaml:26:14: test 'shapes': the rows expected of 'board' are for 2 batches, "
        "but 1 batch is given; write one list per batch, or one list of rows for all",
        "trades_test.yaml:27:5: test 'nothing' expects nothing; add 'expect:' with rows by sink",
        "trades_test.yaml:29:60: test 'rows': the rows expected of 'board' contain 1, expected columns",
        "trades_test.yaml:30:5: test 'none': 'given' is empty, expected rows by source; "
        "write 'given: {trades: [[...]]}'",
        "trades_test.yaml:30:18: test 'none': 'expect' is 5, expected rows by sink",
    ]
