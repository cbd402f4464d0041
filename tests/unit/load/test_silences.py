"""Which comments are silences, and which line each is about."""

from __future__ import annotations

import pytest

from penstock.load.document import to_pipeline
from penstock.load.yaml_file import parse_yaml
from penstock.model import Location, Silence, fingerprint

ALLOW = "penstock: allow windows-end because"


def silences(text: str) -> list[Silence]:
    return list(parse_yaml(text, "a.yaml").silences)


def test_a_comment_at_the_end_of_a_line_is_about_that_line():
    text = "sources:\n  a: {rate: {}} # penstock: allow windows-end because it is small\n"

    assert silences(text) == [Silence("windows-end", "it is small", Location("a.yaml", 2, 17), 2)]


def test_a_comment_on_its_own_line_is_about_the_next_line_that_is_not_a_comment():
    text = f"sources:\n  # {ALLOW} x\n  # {ALLOW} y\n  # a comment\n  a: {{rate: {{}}}}\n\n  # {ALLOW} z\n\n  b: 1\n"

    assert [(each.at.line, each.line) for each in silences(text)] == [(2, 5), (3, 5), (7, 8)]


@pytest.mark.parametrize(
    "value",
    [
        f'"text # {ALLOW} x"',
        f"'text # {ALLOW} x'",
        f"|\n    text # {ALLOW} x\n    # {ALLOW} y\n",
        f">-\n    text # {ALLOW} x\n\n    # {ALLOW} y\n",
        f"'a\n    # {ALLOW} x\n    b'",
        f"text#{ALLOW} x".replace(": ", ":"),
    ],
    ids=["double quotes", "single quotes", "literal", "folded", "lines in quotes", "no space before"],
)
def test_text_has_no_comments(value: str):
    assert silences(f"a:\n  b: {value}\n") == []


def test_text_and_a_comment_can_share_a_line():
    text = f"a: 'x # {ALLOW} x' # {ALLOW} y\nb: | # {ALLOW} z\n  text\n# {ALLOW} v\nc: plain # {ALLOW} w\n"

    assert [(each.reason, each.line) for each in silences(text)] == [("y", 1), ("z", 2), ("v", 5), ("w", 5)]


def test_a_comment_after_a_nested_block_is_not_part_of_it():
    text = f"steps:\n  a: |\n    SELECT 1\n  # {ALLOW} x\n  b: SELECT 2\n"

    assert [each.line for each in silences(text)] == [5]


def test_a_comment_in_the_sql_of_a_step_counts():
    text = (
        "steps:\n"
        "  a: |\n"
        "    SELECT 1, '-- penstock: allow windows-end because no'\n"
        f"    -- {ALLOW} above\n"
        "    -- a comment\n"
        f"    FROM x -- {ALLOW} behind\n"
        f'  b: {{sql: "SELECT 2 -- {ALLOW} quoted"}}\n'
        "notes:\n"
        "  c: |\n"
        f"    -- {ALLOW} not SQL\n"
    )

    assert [(each.reason, each.line) for each in silences(text)] == [("above", 6), ("behind", 6), ("quoted", 7)]


def test_sql_with_an_open_quote_has_no_silences():
    assert silences(f"steps:\n  a: |\n    SELECT 'x\n    -- {ALLOW} y\n") == []


@pytest.mark.parametrize(
    ("comment", "rule", "reason"),
    [
        ("penstock: allow windows-end", "windows-end", ""),
        ("penstock: allow windows-end because", "windows-end", ""),
        ("penstock: allow windows-end, it is small", "windows-end,", ""),
        ("penstock: allow", "", ""),
        ("penstock:allow  windows-end  because  it is # small ", "windows-end", "it is # small"),
    ],
)
def test_a_silence_without_a_rule_or_a_reason_is_found_too(comment: str, rule: str, reason: str):
    (silence,) = silences(f"a: 1 #{comment}\n")

    assert (silence.rule, silence.reason) == (rule, reason)


@pytest.mark.parametrize("comment", ["penstock: allows much", "penstock runs this", "do penstock: allow x because y"])
def test_another_comment_is_not_a_silence(comment: str):
    assert silences(f"a: 1 # {comment}\n") == []


PIPELINE = "sources:\n  a: {rate: {}}\nsinks:\n  b: {from: a, memory: {}}\n"


def test_a_silence_does_not_change_the_fingerprint_of_a_pipeline():
    plain = to_pipeline(parse_yaml(PIPELINE, "a.yaml"))
    commented = to_pipeline(parse_yaml(f"# {ALLOW} x\n{PIPELINE}", "a.yaml"))

    assert len(commented.silences) == 1
    assert fingerprint(plain) == fingerprint(commented)
