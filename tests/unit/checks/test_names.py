"""Names exist, do not go in circles, and lead somewhere."""

from __future__ import annotations

from penstock.checks import names

TEXT = """\
sources:
  trades: {{rate: }}
steps:
  a: |
    SELECT *
    FROM {a}
  b: SELECT * FROM {b}
  c: {{python: "json:loads", reads: [{c}]}}
sinks:
  s: {{from: {s}, console: }}
"""


def text(a="trades", b="a", c="b", s="c"):
    return TEXT.format(a=a, b=b, c=c, s=s)


def test_names_that_exist_are_fine(findings):
    assert findings(text()) == []


def test_a_name_in_sql_that_does_not_exist_is_told_by_its_line(findings):
    assert findings(text(a="tradse")) == [
        "a.yaml:6:10: step 'a' reads 'tradse', which is neither a source nor a step; did you mean 'trades'?",
    ]


def test_names_of_python_steps_and_sinks_exist_too(findings):
    found = findings(text(c="x-y", s="../b"))

    assert found[-2:] == [
        "a.yaml:8:37: step 'c' reads 'x-y', which is neither a source nor a step; use a, b, c or trades",
        "a.yaml:10:7: sink 's' reads '../b', which is neither a source nor a step; use a, b, c or trades",
    ]


def test_a_cycle_is_told_once_and_whole(findings):
    found = findings(text(a="c"))

    assert found == [
        "a.yaml:2:3: warning: no sink uses source 'trades'; add a sink for it or remove it",
        "a.yaml:4:3: step 'a' reads its own rows: a -> c -> b -> a; make one of them read something else",
    ]


def test_a_step_that_reads_itself_is_a_cycle(findings):
    assert "a.yaml:7:3: step 'b' reads its own rows: b -> b; make one of them read something else" in findings(
        text(b="b")
    )


def test_what_no_sink_uses_is_a_warning(findings):
    assert findings(text(s="a")) == [
        "a.yaml:7:3: warning: no sink uses step 'b'; add a sink for it or remove it",
        "a.yaml:8:3: warning: no sink uses step 'c'; add a sink for it or remove it",
    ]


def test_a_thousand_unknown_names_get_a_hundred_suggestions(findings, monkeypatch):
    asked: list[str] = []
    monkeypatch.setattr(names, "did_you_mean", lambda word, _: asked.append(word) or "?")
    sinks = "".join(f"  b{number}: {{from: no{number}, console: }}\n" for number in range(1000))

    found = findings(f"sources: {{a: {{rate: }}}}\nsinks:\n  b: {{from: a, console: }}\n{sinks}")

    assert len([line for line in found if "which is neither a source nor a step" in line]) == 1000
    assert len(asked) == 100


def test_steps_that_cannot_be_in_a_cycle_are_not_searched():
    chain = {f"s{number}": (f"s{number - 1}",) for number in range(1, 5000)}
    beside = {"a": ("b",), "b": ("c", "trades"), "c": ("a", "s4"), "after": ("a",), "own": ("own", "s1")}

    assert names.steps_between_cycles(chain) == {}
    assert sorted(names.steps_between_cycles({**chain, **beside})) == ["a", "b", "c", "own"]
