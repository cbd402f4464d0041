"""Comments that silence findings: which lines they cover, what they cannot silence, and what is said about them."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock import checks
from penstock.checks import RULES, check, check_all
from penstock.checks.silences import DEEP_RULES, NOT_SILENCED, apply_silences
from penstock.cli.explain import rules
from penstock.load.document import to_pipeline
from penstock.load.yaml_file import parse_yaml
from penstock.model import Finding, Pipeline, errors
from penstock.pipeline import load_checked
from penstock.testing.suites import suite

NAMES = [rule.__name__.replace("_", "-") for rule in RULES]
AGAIN = "penstock: allow sources-can-be-read-again because it is a demo"


def pipeline(text: str) -> Pipeline:
    return to_pipeline(parse_yaml(text, "a.yaml"))


def found(text: str) -> list[tuple[str, int]]:
    return [(finding.rule, finding.at.line) for finding in check(pipeline(text))]


def messages(text: str) -> list[str]:
    return [f"{finding.says}; {finding.fix}" for finding in check(pipeline(text))]


@pytest.mark.parametrize(
    "source",
    [
        f"  lines: {{socket: {{port: 9999}}}} # {AGAIN}\n",
        f"  # {AGAIN}\n  lines: {{socket: {{port: 9999}}}}\n",
        f"  # {AGAIN}\n  # another comment\n  lines:\n    socket: {{port: 9999}}\n",
        f"  lines: # {AGAIN}\n    socket: {{port: 9999}}\n",
    ],
    ids=["its line", "the line above", "above another comment", "the key"],
)
def test_a_silence_covers_its_line_and_the_line_below(source: str):
    assert found(f"sources:\n{source}sinks:\n  out: {{from: lines, memory: {{}}}}\n") == []


SPREAD = """\
sources:
  orders: {{rate: {{}}}}
steps:
  {above}
  large: {key}
    sql: |
      SELECT value
      FROM orders
      WHERE amount > 3
  more: SELECT amount FROM orders
sinks:
  out: {{from: large, memory: {{}}}}
  two: {{from: more, memory: {{}}}}
"""
COLUMN = "# penstock: allow columns-exist because the table gets it tomorrow"


@pytest.mark.parametrize(("above", "key"), [(COLUMN, ""), ("", COLUMN)], ids=["above the key", "at the key"])
def test_a_silence_at_the_key_of_a_node_covers_all_its_lines_and_no_other_node(above: str, key: str):
    assert found(SPREAD.format(above="", key="")) == [("columns-exist", 9), ("columns-exist", 10)]
    assert found(SPREAD.format(above=above, key=key)) == [("columns-exist", 10)]


def test_a_silence_at_another_key_of_the_node_covers_only_that_line():
    text = SPREAD.format(above="", key="").replace("sql: |", f"sql: | {COLUMN}")

    assert found(text) == [("silences-are-used", 6), ("columns-exist", 9), ("columns-exist", 10)]


def test_a_comment_in_the_sql_covers_its_line():
    text = SPREAD.format(above="", key="").replace("amount > 3", "amount > 3 -" + COLUMN.replace("#", "-"))

    assert found(text) == [("columns-exist", 10)]


def test_a_silence_covers_only_its_rule():
    sources = f"sources:\n  lines: {{socket: {{port: 9999}}}} # {AGAIN}\n  ticks: {{rate: {{}}}}\n"

    assert found(f"{sources}sinks:\n  out: {{from: ticks, memory: {{}}}}\n") == [("everything-is-read", 2)]


def test_what_is_silenced_is_known_with_its_reason():
    text = f"sources:\n  lines: {{socket: {{port: 9999}}}} # {AGAIN}\nsinks:\n  out: {{from: lines, memory: {{}}}}\n"

    (silenced,) = check_all(pipeline(text)).silenced

    assert (silenced.finding.rule, silenced.silence.reason) == ("sources-can-be-read-again", "it is a demo")


GOOD = "sources:\n  ticks: {{rate: {{}}}} # {}\nsinks:\n  out: {{from: ticks, memory: {{}}}}\n"


def test_a_silence_that_silences_nothing_is_a_warning():
    text = GOOD.format(AGAIN)

    (finding,) = check(pipeline(text))

    assert (finding.rule, finding.severity, finding.at.line) == ("silences-are-used", "warning", 2)
    assert finding.says == "the silence of 'sources-can-be-read-again' silences nothing"


def test_an_unknown_rule_gets_the_nearest_one():
    text = GOOD.format("penstock: allow windows-ends because it is small")

    assert messages(text) == ["'windows-ends' is not a rule of check; did you mean 'windows-end'?"]


def test_a_silence_without_a_reason_has_no_effect():
    text = "sources:\n  lines: {socket: {port: 9}} # penstock: allow sources-can-be-read-again\n"
    text += "sinks:\n  out: {from: lines, memory: {}}\n"

    assert found(text) == [("sources-can-be-read-again", 2), ("silences-have-reasons", 2)]


def test_the_findings_about_silences_cannot_be_silenced():
    text = GOOD.format("penstock: allow silences-are-used because no")

    assert [rule for rule, _ in found(text)] == ["silences-name-rules"]


def test_an_error_that_penstock_cannot_run_with_stays():
    comment = "# penstock: allow names-exist because it comes soon"
    text = "sources:\n  ticks: {rate: {}}\nsinks:\n  out: {from: ticks, memory: {}}\n"
    text += f"  two: {{from: nope, memory: {{}}}} {comment}\n"

    findings = check(pipeline(text))

    assert [(finding.rule, finding.severity) for finding in findings] == [
        ("names-exist", "error"),
        ("silences-name-rules", "warning"),
    ]
    assert findings[1].says == "errors of 'names-exist' cannot be silenced: there would be no rows to read"


@pytest.mark.parametrize("target", ["files: {path: out}", 'kafka: {servers: "h:1", topic: t}'])
def test_a_warning_of_a_rule_can_be_silenced_though_its_errors_cannot(target: str):
    text = f"sources:\n  t: {{rate: {{}}}}\nsinks:\n  a: {{from: t, {target}}}\n"
    text += f"  b: {{from: t, {target}}} # penstock: allow sinks-write-apart because they share it\n"

    assert [rule for rule, _ in found(text)] == (
        ["sinks-write-apart", "silences-name-rules"] if "files" in target else []
    )


def test_a_silence_of_a_rule_that_needs_a_variable_is_not_unused_without_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("PENSTOCK_OUTPUT_FOLDERS", raising=False)

    assert found(GOOD.format("penstock: allow outputs-stay-in-their-folders because it is shared")) == []


def test_a_silence_of_a_rule_of_the_deep_check_is_judged_by_the_deep_check():
    loaded = pipeline(GOOD.format("penstock: allow columns-are-known because the table is new"))
    finding = Finding("columns-are-known", loaded.sources[0].at, "unknown", severity="warning")

    assert check(loaded) == []
    assert apply_silences(loaded, [finding], DEEP_RULES).findings == []
    assert [each.rule for each in apply_silences(loaded, [], DEEP_RULES).findings] == ["silences-are-used"]


def test_what_spark_itself_refuses_cannot_be_silenced():
    assert messages(GOOD.format("penstock: allow spark-accepts-it because I know better")) == [
        "errors of 'spark-accepts-it' cannot be silenced: Spark itself refuses it; fix the cause and remove the comment"
    ]


def test_the_rules_that_are_never_silenced_exist():
    assert NOT_SILENCED.keys() <= {*NAMES, "spark-accepts-it", "columns-fit-sink"}


@pytest.mark.parametrize("name", [name for name in NAMES if rules()[name].wrong])
def test_a_finding_of_a_rule_is_silenced_unless_its_errors_stay(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    for file, text in rules()[name].modules.items():
        Path(file).write_text(text)
    lines, wrong = rules()[name].wrong.splitlines(), pipeline(rules()[name].wrong)
    places = [finding.at for finding in check(wrong) if finding.rule == name]
    for line in {(node.at if (node := wrong.node_at(at)) else at).line for at in places}:
        lines[line - 1] += f" # penstock: allow {name} because it is intended"

    left = {rule for rule, _ in found("\n".join(lines))}

    assert places
    assert (name in left) == (name in NOT_SILENCED)


def test_run_and_test_honour_silences(tmp_path: Path):
    file = tmp_path / "quiet.yaml"
    text = SPREAD.format(above=COLUMN, key="").replace("SELECT amount", "SELECT value")
    case = "{name: a, given: {orders: [[{value: 1}]]}, expect: {two: [[{value: 1}]]}}"
    file.write_text(f"{text}tests:\n  - {case}\n")

    loaded, findings = load_checked(file)

    assert findings == []
    assert errors(checks.check(loaded)) == []
    assert (suite(file).findings, len(suite(file).cases)) == ((), 1)
