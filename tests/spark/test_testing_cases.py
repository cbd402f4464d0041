"""Tests in YAML, run with Spark: what passes, and the whole text of what does not."""

from __future__ import annotations

import json
import textwrap

import pytest
from click.testing import CliRunner

from penstock.cli import penstock
from penstock.cli.test import LastRun, Selection, follow, run_suites
from penstock.testing import discover, run

PIPELINE = """\
name: trades
sources:
  trades:
    kafka: {servers: nowhere:1, topics: [trades]}
    json: at timestamp, type string, amount int
    watermark: {column: at, delay: 30 minutes}
    bad_records: drop
steps:
  totals: |
    SELECT window.start, sum(amount) AS total, sum(CAST(amount AS decimal(10, 2)) / 3) AS third
    FROM trades GROUP BY window(at, '15 minutes')
sinks:
  board: {from: totals, console: {}, mode: update, trigger: 1 minute}
  copy: {from: trades, console: {}}
"""


@pytest.fixture
def results(spark, tmp_path):
    """What comes of the tests of a text, by name."""

    def results(tests: str, pipeline: str = PIPELINE):
        file = tmp_path / "trades.yaml"
        file.write_text(pipeline)
        (tmp_path / "trades_test.yaml").write_text(textwrap.dedent(tests))
        (suite,) = discover([file])
        assert [str(finding) for finding in suite.findings] == []
        return {case.name: run(case, suite.pipeline, spark) for case in suite.cases}

    return results


def problems(result) -> str:
    return "\n".join(map(str, result.problems))


def test_rows_are_compared_by_value_per_batch_and_in_the_end(results):
    found = results("""\
        tests:
          - name: per batch
            given:
              trades:
                - - {at: "2019-02-05 10:05:00", type: BUY, amount: 500}
                  - {at: "2019-02-05 10:20:00", type: BUY, amount: 7}
                - - {at: "2019-02-05 10:06:00", type: SELL, amount: 100}
            expect:
              board:
                - - {start: "2019-02-05 10:15", total: 7, third: 2.333333}
                  - {start: "2019-02-05T10:00:00Z", total: 500.0, third: "166.666667"}
                - - {total: 600, third: "200.000000"}
              copy:
                - {type: BUY}
                - {type: SELL, amount: 100}
                - {type: BUY, at: "2019-02-05 10:20:00"}
        """)

    assert problems(found["per batch"]) == ""


def test_a_failure_shows_every_row_that_is_missing_unexpected_or_different(results, tmp_path):
    found = results("""\
        tests:
          - name: wrong in every way
            given:
              trades:
                - - {at: "2019-02-05 10:05:00", type: BUY, amount: 500}
                  - {at: "2019-02-05 10:20:00", type: BUY, amount: 7}
                - - {at: "2019-02-05 10:06:00", type: BUY, amount: 100}
            expect:
              board:
                - - {start: "2019-02-05 10:00:00", total: 501}
                  - {start: "2019-02-05 10:15:00", total: 7}
                - []
              copy:
                - {type: SELL, amount: 1}
                - {type: BUY, amount: 500}
                - {type: BUY, amount: 7}
                - {type: BUY, amount: "100"}
            bad_records: {trades: 2}
            late_rows: {board: 3}
            state_rows: {board: 1}
        """)

    assert found["wrong in every way"].text == textwrap.dedent(f"""\
        {tmp_path}/trades_test.yaml:2:5: wrong in every way
        sink 'board', batch 0: expected 2 rows, found 2
          different  {{start: 2019-02-05 10:00:00, total: expected 501, found 500}}
        sink 'board', batch 1: expected 0 rows, found 1
          unexpected {{start: 2019-02-05 10:00:00, total: 600, third: 200.000000}}
        sink 'copy', in the end: expected 4 rows, found 3
          different  {{type: BUY, amount: expected '100', found 100}}
          missing    {{type: SELL, amount: 1}}
        source 'trades', bad records: expected 2, found 0
        sink 'board', late rows: expected 3, found 0
        sink 'board', rows in its state: expected 1, found 2""")


def test_order_counts_only_when_asked(results):
    given = """
        given: {{trades: [[{{type: a, amount: 1}}, {{type: b, amount: 2}}]]}}
        expect: {{copy: [[{{type: b}}, {{type: a}}]]}}
        ordered: {}
    """
    tests = "".join(
        f"  - name: {name}\n" + textwrap.indent(textwrap.dedent(given.format(name == "asked")).strip(), "    ") + "\n"
        for name in ("not", "asked")
    )

    found = results("tests:\n" + tests.replace("True", "true").replace("False", "false"))

    assert problems(found["not"]) == ""
    assert problems(found["asked"]) == textwrap.dedent("""\
        sink 'copy', batch 0: expected 2 rows, found 2
          order      found as row 0: {at: null, type: a, amount: 1}
          order      found as row 1: {at: null, type: b, amount: 2}""")


def test_an_error_can_be_expected(results):
    found = results(
        """\
        tests:
          - name: expected
            given: {trades: [["not json"]]}
            error: "offset 0 is not json of the declared schema: not json"
          - name: another
            given: {trades: [["not json"]]}
            error: no such thing
          - name: none
            given: {trades: [[{amount: 1}]]}
            error: offset
          - name: not expected
            given: {trades: [["not json"]]}
            expect: {copy: []}
        """,
        "".join(line for line in PIPELINE.replace("drop", "fail").splitlines(keepends=True) if "board" not in line),
    )

    assert problems(found["expected"]) == ""
    assert problems(found["another"]).startswith("expected an error with 'no such thing', found: ")
    assert problems(found["none"]) == "expected an error with 'offset', found none"
    assert "source 'trades': the record at topic trades, partition 0, offset 0" in problems(found["not expected"])


def test_a_column_that_a_sink_does_not_have_is_said_with_its_line(results, tmp_path):
    found = results("""\
        tests:
          - name: misspelled
            given: {trades: [[{amount: 1}]]}
            expect:
              copy:
                - {amuont: 1}
        """)

    says = "sink 'copy' has no column 'amuont'; did you mean 'amount'?"
    assert problems(found["misspelled"]) == f"{tmp_path}/trades_test.yaml:6:12: {says}"


def test_nested_values_compare_inside(results):
    nested = """\
name: nested
sources:
  rows:
    kafka: {servers: nowhere:1, topics: [a]}
    json: >-
      s struct<a int, b struct<c string>>, l array<struct<x int, y int>>, m map<string,int>, d date, f float, b boolean
sinks: {out: {from: rows, console: {}}}
"""
    found = results(
        """\
        tests:
          - name: same
            given: &given
              rows: [[{s: {a: 1, b: {c: x}}, l: [{x: 1, y: 2}], m: {k: 1}, d: "2024-01-02", f: 0.1, b: true}]]
            expect: {out: [{s: {b: {c: x}}, l: [{y: 2}], m: {k: 1}, d: "2024-01-02", f: 0.1, b: true}]}
          - name: not the same
            given: *given
            expect: {out: [{s: {a: 1}, l: [], m: {}, d: "2024-01-03", f: 0.2, b: null}]}
        """,
        nested,
    )

    assert problems(found["same"]) == ""
    different = (
        "different  {s: {a: 1, b: {c: x}}, l: expected [], found [{x: 1, y: 2}], m: expected {}, found {k: 1}, "
        "d: expected 2024-01-03, found 2024-01-02, f: expected 0.2, found 0.1, b: expected null, found true}"
    )
    assert problems(found["not the same"]) == f"sink 'out', in the end: expected 1 row, found 1\n  {different}"


@pytest.mark.parametrize("how", ["restart: [1]", "crash: after_write", "crash: before_commit"])
def test_what_a_test_expects_holds_when_the_query_is_interrupted(results, how):
    found = results(f"""\
        tests:
          - name: interrupted
            given:
              trades:
                - - {{at: "2019-02-05 10:05:00", amount: 500}}
                - - {{at: "2019-02-05 10:06:00", amount: 100}}
                  - nonsense
            expect: {{board: [[{{total: 500}}], [{{total: 600}}]]}}
            bad_records: {{trades: 1}}
            {how}
        """)

    assert problems(found["interrupted"]) == ""


PLAIN = """\
name: copy
sources: {lines: {socket: {port: 1}}}
sinks: {out: {from: lines, console: {}}}
"""


@pytest.fixture
def command(spark, tmp_path, monkeypatch):
    """`penstock test` inside this process, in a folder with a file and its tests."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "copy.yaml").write_text(PLAIN)
    (tmp_path / "copy_test.yaml").write_text(
        "tests:\n"
        "- {name: right, given: {lines: [[a], [b]]}, expect: {out: [[{value: a}], [{value: b}]]}}\n"
        "- {name: wrong, given: {lines: [[a]]}, expect: {out: [{value: c}]}}\n"
    )

    def call(*arguments: str):
        return CliRunner().invoke(penstock, ["test", *arguments])

    return call


def without_seconds(text: str) -> str:
    import re

    return re.sub(r"\d+\.\d+ s", "0.0 s", text)


def test_the_command_prints_a_line_per_test_and_the_difference(command):
    result = command()

    assert result.exit_code == 1
    assert without_seconds(result.stdout) == textwrap.dedent("""\
        copy.yaml
          ok    right  (0.0 s)
          FAIL  wrong  (0.0 s)
                copy_test.yaml:3:3
                sink 'out', in the end: expected 1 row, found 1
                  missing    {value: c}
                  unexpected {value: a}
        2 tests: 1 passed, 1 failed in 0.0 s
        """)


def test_one_test_can_be_chosen(command):
    result = command("copy_test.yaml", "-k", "RIGHT")

    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1].startswith("1 test: 1 passed, 0 failed in ")


def test_outcomes_as_json(command):
    found = json.loads(command("--json").stdout)

    outcomes = [(each["name"], each["passed"], each["line"], each["column"]) for each in found]
    assert outcomes == [("right", True, 2, 3), ("wrong", False, 3, 3)]
    assert found[1]["problems"] == [
        {
            "says": "sink 'out', in the end: expected 1 row, found 1",
            "rows": [{"mark": "missing", "text": "{value: c}"}, {"mark": "unexpected", "text": "{value: a}"}],
        }
    ]


def test_what_is_recorded_loads_again_and_passes(command, tmp_path):
    typed = """\
name: typed
sources:
  rows:
    kafka: {servers: nowhere:1, topics: [a]}
    json: "id int, `a b` string, price decimal(10,2), at timestamp, l array<int>, m map<string,double>, n int, b binary"
sinks: {out: {from: rows, console: {}}}
"""
    row = '{id: 1, "a b": "x: \\"y\\"", price: "1.50", at: "2024-01-01 10:00:00.5", l: [1], m: {k: 0.1}, b: eA==}'
    (tmp_path / "typed.yaml").write_text(typed)
    (tmp_path / "typed_test.yaml").write_text(
        f"tests:\n- {{name: all, given: {{rows: [[{row}], [], [{row}]]}}, expect: {{out: []}}, restart: [2]}}\n"
    )

    recorded = command("typed.yaml", "--record", "out").stdout

    row_out = (
        '{id: 1, "a b": "x: \\"y\\"", price: "1.50", at: "2024-01-01 10:00:00.500000", l: [1], m: {k: 0.1}, '
        'n: null, b: "x"}'
    )
    assert recorded.endswith(
        f"    expect:\n      out:\n        - - {row_out}\n        - []\n        - - {row_out}\n    restart: [2]\n"
    )
    (tmp_path / "typed_test.yaml").write_text(recorded)
    assert command("typed.yaml").exit_code == 0


def test_a_sink_that_is_not_there_cannot_be_recorded(command):
    result = command("--record", "outt")

    assert str(result.exception) == "copy has no sink 'outt'; did you mean 'out'?"
    assert result.exception.exit_code == 2


def test_saved_files_are_run_again(command, spark, tmp_path, capsys):
    (tmp_path / "beside_word.py").write_text("def step(lines):\n    return lines\n")
    (tmp_path / "copy.yaml").write_text(
        PLAIN.replace(
            "sinks: {out: {from: lines",
            'steps: {step: {python: "beside_word:step", reads: [lines]}}\nsinks: {out: {from: step',
        )
    )
    other = tmp_path / "other.yaml"
    other.write_text(PLAIN + "tests: [{name: other, given: {lines: [[a]]}, expect: {out: [{value: a}]}}]\n")
    shown: list[list[str]] = []
    saves = [
        lambda: (tmp_path / "copy_test.yaml").write_text(
            "tests: [{name: saved, given: {lines: [[a]]}, expect: {out: [{value: a!}]}}]\n"
        ),
        lambda: (tmp_path / "beside_word.py").write_text(
            "def step(lines):\n    return lines.selectExpr(\"value || '!' AS value\")\n"
        ),
        lambda: (tmp_path / "copy_test.yaml").write_text("tests: [{nam: saved}]\n"),
        lambda: None,
    ]

    def wait() -> bool:
        printed = capsys.readouterr()
        shown.append((printed.out + printed.err).splitlines())
        if len(shown) > len(saves):
            return False
        saves[len(shown) - 1]()
        return True

    follow(Selection((str(tmp_path),)), spark, wait)

    assert shown[0] == []
    assert [without_seconds(line) for line in shown[1][:2]] == [str(tmp_path / "copy.yaml"), "  FAIL  saved  (0.0 s)"]
    assert "  ok    saved  (0.0 s)" in [without_seconds(line) for line in shown[2]]
    assert any("test 1 does not know 'nam'; did you mean 'name'?" in line for line in shown[3])
    assert shown[4] == []


def test_a_saved_test_runs_alone_until_the_pipeline_changes(spark, tmp_path, capsys):
    test = "  - {{name: {0}, given: {{lines: [[{0}]]}}, expect: {{out: [{{value: {1}}}]}}}}\n"
    pipeline, tests = tmp_path / "copy.yaml", tmp_path / "copy_test.yaml"
    pipeline.write_text(PLAIN)
    tests.write_text("tests:\n" + test.format("one", "one") + test.format("two", "no"))
    shown: list[set[str]] = []
    saves = [
        lambda: tests.write_text(tests.read_text() + test.format("three", "three")),
        lambda: tests.write_text(tests.read_text().replace("value: no", "value: two")),
        lambda: pipeline.write_text(PLAIN + "storage: elsewhere\n"),
        lambda: None,
    ]

    def wait() -> bool:
        words = capsys.readouterr().out.split()
        shown.append({name for name in ("one", "two", "three") if name in words})
        if len(shown) > len(saves):
            return False
        saves[len(shown) - 1]()
        return True

    selection = Selection((str(tmp_path),))
    suites = selection.suites()
    follow(selection, spark, wait, LastRun(suites, run_suites(suites, spark, lambda _: None)))

    # A test that failed runs again with every save, one that passed only when it may end otherwise.
    assert shown[1:4] == [{"two", "three"}, {"two"}, {"one", "two", "three"}]
