"""A finding about SQL is at the line and column of the word that it is about, however the SQL is written."""

from __future__ import annotations

import random

import pytest
from tests.scalars import STYLES, Layout, index_of

from penstock.checks import check
from penstock.load.document import to_pipeline
from penstock.load.variables import substitute
from penstock.load.yaml_file import parse_yaml
from penstock.model import Finding

# The place is marked with «.
CASES = [
    ("names-exist", "SELECT tradse AS x FROM «tradse", "append"),
    ("names-exist", "SELECT value FROM trades JOIN «`tradse` USING (value)", "append"),
    ("columns-exist", "SELECT value, «vlaue FROM trades", "append"),
    ("columns-exist", "SELECT t.value, t.«vlaue FROM trades t", "append"),
    ("columns-exist", "SELECT value FROM trades WHERE upper('é😀''') > «vlaue", "append"),
    ("functions-exist", "SELECT «lenght('x') AS n FROM trades", "append"),
    ("sql-is-one-select", "«INSERT INTO x SELECT * FROM trades", "append"),
    ("sql-is-one-select", "SELECT * FROM trades; «DROP TABLE x", "append"),
    ("sql-is-one-select", "WITH a AS (SELECT 1) «INSERT INTO x SELECT * FROM trades", "append"),
    ("sql-is-understood", "SELECT value AS x «y FROM trades", "append"),
    ("sql-is-understood", "SELECT value FROM trades WHERE x = «'y", "append"),
    ("sql-calls-no-java", "SELECT «reflect('a', 'b') AS x FROM trades", "append"),
    ("sql-reads-streams-only", "SELECT * FROM trades JOIN «json.`/etc/x` USING (value)", "append"),
    ("sql-reads-streams-only", "SELECT db.t AS x FROM trades JOIN «db.t ON true", "append"),
    ("sql-uses-spark-windows", "SELECT «TUMBLE(timestamp, INTERVAL '10' MINUTES) FROM trades", "append"),
    ("append-has-watermark", "SELECT value, count(*) AS n FROM trades «GROUP BY value", "append"),
    ("append-has-watermark", "SELECT 1 AS one FROM («SELECT DISTINCT value FROM trades)", "append"),
    ("append-has-watermark", "«SELECT DISTINCT (SELECT max(1)) AS m, value FROM trades", "append"),
    ("append-has-watermark", "FROM («FROM trades SELECT DISTINCT value) SELECT value", "append"),
    (
        "streams-are-combined",
        "SELECT value FROM trades «EXCEPT (SELECT 1 FROM others UNION ALL SELECT 2 FROM others)",
        "append",
    ),
    ("distinct-is-approximate", "SELECT value, «count(DISTINCT value) AS n FROM trades GROUP BY value", "update"),
    ("streams-are-not-sorted", "SELECT * FROM trades WHERE value > 1 «ORDER BY 1", "append"),
    ("streams-are-whole", "SELECT * FROM trades «LIMIT 5", "update"),
    ("streams-are-whole", "SELECT * FROM trades LIMIT 5 «OFFSET 2", "append"),
    ("streams-are-not-windowed", "SELECT «sum(value) OVER (ORDER BY timestamp) AS n FROM trades", "append"),
    ("subqueries-are-static", "SELECT * FROM trades WHERE value IN («SELECT value FROM others)", "append"),
    ("streams-are-combined", "SELECT value FROM trades «EXCEPT SELECT value FROM others", "append"),
    ("joins-of-streams-end", "SELECT a.value FROM trades a «LEFT OUTER JOIN others b ON a.value = b.value", "append"),
]


def findings(text: str, variables: dict[str, str] | None = None) -> list[Finding]:
    read = substitute(parse_yaml(text, "a.yaml"), variables or {})
    return check(to_pipeline(read.document, read.findings))


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(("rule", "marked", "mode"), CASES)
def test_a_finding_is_at_the_word_that_it_is_about(rule, marked, mode, style):
    text, wanted = marked.replace("«", ""), marked.index("«")
    for seed in range(3):
        chance = random.Random(seed)
        layout = Layout(5, 2, chance.choice(["\n", "\r\n"]))
        emitted = STYLES[style](text, chance, layout)
        assert emitted is not None
        head = "sources: {trades: {rate: }, others: {rate: }}\nsteps:\n  s: ".replace("\n", layout.newline)
        tail = f"\nsinks: {{b: {{from: s, console: , mode: {mode}}}, c: {{from: others, console: }}}}\n"
        file = head + emitted[0].removesuffix(layout.newline) + tail.replace("\n", layout.newline)

        found = [each for each in findings(file) if each.rule == rule]

        places = {index_of(file, each.at.line, each.at.column) - len(head) for each in found}
        assert places == {emitted[1][wanted]}, file


TARGET = """\
sources: {trades: {rate: }}
sinks:
  out:
    from: trades
    to:
      - console:
        name: one
        select: >-
          value,
          {select} AS n
        where: "value > 1 \\
          AND {where} > 2"
        group_by: 'value,

          {group_by}'
"""


@pytest.mark.parametrize(("wrong", "place"), [("select", (10, 11)), ("where", (12, 15)), ("group_by", (15, 11))])
def test_a_word_in_the_sql_of_a_target_has_its_place(wrong, place):
    words = {"select": "count(*)", "where": "value", "group_by": "timestamp", wrong: "nothing"}
    text = TARGET
    for key, word in words.items():
        text = text.replace("{" + key + "}", word)

    places = [(each.at.line, each.at.column) for each in findings(text) if each.rule == "columns-exist"]

    assert places == [place]


def test_what_is_behind_a_variable_has_its_place_and_its_value_the_place_of_the_reference():
    text = "sources: {a: {rate: }}\nsteps:\n  s: SELECT ${X} AS x, vlaue FROM a\nsinks: {b: {from: s, console: }}\n"

    found = findings(text, {"X": "a_long_name_that_is_no_column"})

    assert [(each.at.line, each.at.column) for each in found] == [(3, 13), (3, 24)]


def test_a_pipeline_without_findings_needs_no_place():
    text = "sources: {a: {rate: }}\nsteps:\n  s: |\n    SELECT value FROM a\nsinks: {b: {from: s, console: }}\n"
    pipeline = to_pipeline(parse_yaml(text, "a.yaml"))

    assert check(pipeline) == []
    assert "_pieces" not in vars(pipeline.steps[0].text_at)
