"""Every character of a text in YAML is found again in the file, in all styles of scalars."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
import yaml
from tests.scalars import STYLES, Layout, index_of

from penstock.checks import check
from penstock.load import load, load_text
from penstock.load.text_map import FileText, PlainText, ScalarText, SubstitutedText
from penstock.load.variables import substitute
from penstock.load.yaml_file import parse_yaml
from penstock.model import JoinedText, Location, TextMap, fingerprint

TEXTS = 2_400
LETTERS = [
    *("a", "b", "x1", "SELECT", " ", " ", "  ", "\n", "\n", "\n\n", "\t", "'", '"', "\\", "`"),
    *("é", "日本", "😀", "#", ": ", "-", "&", "*", "{"),
]


def texts(seed: int, count: int = TEXTS) -> Iterator[tuple[random.Random, str]]:
    """Random texts, each with the generator for the choices of an emitter."""
    for number in range(count):
        chance = random.Random(f"{seed}-{number}")
        yield chance, "".join(chance.choices(LETTERS, k=chance.randint(1, 16)))


def places_of(text: str, found: TextMap, file: str) -> list[int]:
    """The index in a file of each character of a text."""
    places = (found.locate(offset) for offset in range(len(text)))
    return [index_of(file, at.line, at.column) for at in places]


@pytest.mark.parametrize("style", STYLES)
def test_every_character_is_found_where_it_was_written(style):
    tried = 0
    for chance, text in texts(1):
        layout = Layout(chance.choice([3, 4, 6, 11]), 2, chance.choice(["\n", "\r\n"]))
        emitted = STYLES[style](text, chance, layout)
        if emitted is None:
            continue
        raw, indexes = emitted
        head = chance.choice(["k:\n  v: ", "k:\n  é😀: 1\n  v: &name ", "# 😀\nk:\n  v: "])
        head = head.replace("\n", layout.newline)
        file = f"{head}{raw}{layout.newline}" if raw[-1] != "\n" else head + raw

        document = parse_yaml(file, "a.yaml")

        assert document.values["k"]["v"] == text, (file, text)
        places = places_of(text, document.text_at(("k", "v"), text), file)
        assert places == [len(head) + index for index in indexes], (file, text)
        tried += 1
    assert tried > 200


@pytest.mark.parametrize("style", [None, "'", '"', "|", ">"])
@pytest.mark.parametrize("width", [10, 80])
def test_every_character_of_what_pyyaml_writes_is_found(style, width):
    for chance, text in texts(2, 500):
        text = chance.choice(["", "", "\u2028", "\x85", "\u2029 a", "\xa0", "\x07"]) + text
        values = {"a": [{"b": text}]}
        indent = chance.choice([2, 3, 7])
        file = yaml.dump(values, default_style=style, width=width, allow_unicode=chance.random() < 0.7, indent=indent)

        document = parse_yaml(file, "a.yaml")

        value = document.values["a"][0]["b"]
        found = document.text_at(("a", 0, "b"), value)
        places = places_of(value, found, file)
        assert places == sorted(set(places)), (file, value)
        for char, place in zip(value, places, strict=True):
            assert file[place] in (char, "\\") or (char in " \n" and file[place] in "\n\x85"), (file, char)


@pytest.mark.parametrize(
    ("file", "place"),
    [
        ("a: SELECT x\n", (1, 11)),
        ("a: SELECT\n    x\n", (2, 5)),
        ("a:\n  SELECT\n\n  x\n", (4, 3)),
        ("a: 'SELECT\n   x'\n", (2, 4)),
        ("a: '''SELECT'' x'\n", (1, 16)),
        ('a: "SELECT\\n\\\n   x"\n', (2, 4)),
        ('a: "\\"SELECT\\" \\U0001F600 x"\n', (1, 27)),
        ("a: |\n  SELECT\n  x\n", (3, 3)),
        ("a: |4-  # why\n      SELECT\n    x\n", (3, 5)),
        ("a: >\n  SELECT\n  x\n", (3, 3)),
        ("a: >\n\n  SELECT\n\n    more\n\n\n  x\n", (8, 3)),
        ("a: >+\r\n  SELECT\r\n\r\n  x\r\n\r\n", (4, 3)),
        ("a: &name >-\n  SELECT\n  x\n", (3, 3)),
        ("a: &name\n  # why\n  SELECT\n  x\n", (4, 3)),
        ("{a: SELECT\n x}\n", (2, 2)),
    ],
)
def test_a_word_has_its_line_and_column(file, place):
    document = parse_yaml(file, "a.yaml")
    value = document.values["a"]

    assert document.text_at(("a",), value).locate(value.index("x")) == Location("a.yaml", *place)


def test_an_alias_is_where_its_anchor_is():
    document = parse_yaml("a: &one\n  b: &two SELECT x\nc: *one\nd: *two\ne: {f: *one}\n", "a.yaml")

    places = {
        document.text_at(keys, "SELECT x").locate(7) for keys in (("a", "b"), ("c", "b"), ("d",), ("e", "f", "b"))
    }

    assert places == {Location("a.yaml", 2, 18)}


def test_what_gets_out_of_step_is_at_the_start_of_the_scalar():
    found = ScalarText(FileText("a.yaml", "a: |\n  SELECT x\n"), 3, "|", "SELECT y")

    assert found.locate(7) == Location("a.yaml", 1, 4)


def test_the_end_of_a_text_is_after_its_last_character():
    document = parse_yaml("a: SELECT\nb: |\n  SELECT\n", "a.yaml")

    assert document.text_at(("a",), "SELECT").locate(6) == Location("a.yaml", 1, 10)
    assert document.text_at(("b",), "SELECT\n").locate(99) == Location("a.yaml", 3, 9)


def test_a_value_is_where_its_reference_is_and_the_text_after_it_where_it_is_written():
    file = "steps:\n  s: >\n    SELECT ${COLUMNS} AS b,\n    '$${x}' AS ${Y:-z} FROM t\n"
    document = substitute(parse_yaml(file, "a.yaml"), {"COLUMNS": "a_long_name"}).document
    text = document.values["steps"]["s"]

    found = document.text_at(("steps", "s"), text)

    assert text == "SELECT a_long_name AS b, '${x}' AS z FROM t\n"
    words = {word: found.locate(text.index(word)) for word in ("a_long", "name", "b,", "${x", "x}", "z", "FROM")}
    assert {word: (at.line, at.column) for word, at in words.items()} == {
        "a_long": (3, 12),
        "name": (3, 12),
        "b,": (3, 26),
        "${x": (4, 6),
        "x}": (4, 9),
        "z": (4, 16),
        "FROM": (4, 24),
    }


def test_an_empty_value_moves_what_follows():
    found = SubstitutedText(PlainText(Location("a.yaml"), "a${X}b${Y}c"), [(1, 5, 0), (6, 10, 1)])

    assert [found.locate(offset).column for offset in range(4)] == [1, 6, 7, 11]


def test_a_joined_text_is_where_its_parts_are():
    select, where = PlainText(Location("a.yaml", 3, 10), "x, y"), PlainText(Location("a.yaml", 5, 8), "z > 1")
    found = JoinedText((("SELECT ", None), ("x, y", select), (" FROM t WHERE ", None), ("z > 1", where)), Location("b"))

    columns = [(at.line, at.column) for at in map(found.locate, (0, 7, 10, 14, 25, 99))]

    assert columns == [(3, 10), (3, 10), (3, 13), (3, 14), (5, 8), (5, 13)]
    assert JoinedText((("SELECT", None),), Location("b", 2)).locate(3) == Location("b", 2)


def test_places_are_not_part_of_what_a_pipeline_is():
    target = "{console: , name: c, select: value, where: value > 1}"
    plain = f"sources: {{a: {{rate: }}}}\nsteps:\n  s: SELECT * FROM a\nsinks: {{b: {{from: s, to: [{target}]}}}}\n"
    quoted = plain.replace("SELECT * FROM a", '"SELECT \\x2a FROM a"').replace("select: value", "select:  'value'")

    one, other = load_text(plain.encode(), "a.yaml"), load_text(quoted.encode(), "a.yaml")

    assert one.steps[0].text_at != other.steps[0].text_at
    assert one == other
    assert fingerprint(one) == fingerprint(other)


PYTHON = '''\
from penstock import Pipeline, console, rate

é = Pipeline("p")
é.source("a", rate())
é.sql("s", """
    SELECT value,
           vlaue
    FROM a""")
é.sql("t", "SELECT valeu FROM a")
é.sql("u", "SELECT\\tvaleu FROM a")
é.sink("b", "s", [console().target(name="one", where="valuee > 1")])
é.sink("c", "t", console())
é.sink("d", "u", console())
'''


def test_sql_in_python_is_found_in_its_literal_or_at_its_call(tmp_path):
    file = tmp_path / "p.py"
    file.write_text(PYTHON, encoding="utf-8")

    found = check(load(file))

    places = [(each.at.line, each.at.column) for each in found if each.rule == "columns-exist"]
    assert places == [(7, 12), (9, 20), (10, 1), (11, 55)]
